"""Folders that fold case, as those of macOS do: table ``A`` beside ``a`` is refused.

Linux has such folders rarely, so links lead from every other spelling to the table, and
the list of the folder leaves them out.
"""

from __future__ import annotations

import contextlib
import os

import polars as pl
import pytest

import rt_frames as rt

FRAME = pl.DataFrame({"n": [1, 2]})
TAKEN = (
    "table 'sales' already exists, and this file system does not distinguish 'Sales' "
    "from it"
)


@pytest.fixture
def client(tmp_path, monkeypatch):
    every = os.scandir

    def listed(folder):
        entries = [entry for entry in every(folder) if not entry.is_symlink()]
        return contextlib.nullcontext(entries)

    with rt.connect(tmp_path, default=False) as client:
        client.create_table("sales", FRAME)
        for spelling in ("SALES.LANCE", "Sales.lance", "sALES.LANCE"):
            (tmp_path / spelling).symlink_to(tmp_path / "sales.lance")
        monkeypatch.setattr(os, "scandir", listed)
        yield client


@pytest.mark.parametrize(
    ("if_exists", "error"),
    [
        ("fail", rt.errors.TableExistsError),
        ("skip", rt.errors.ConflictError),
        ("replace", rt.errors.BadRequest),
        ("append", rt.errors.ConflictError),
    ],
)
def test_a_name_that_differs_in_case_alone_is_taken(client, if_exists, error):
    with pytest.raises(error, match=TAKEN):
        client.create_table("Sales", FRAME.head(1), if_exists=if_exists)
    assert client.table("sales").count() == 2


def test_a_table_has_one_name(client):
    assert client.list_tables() == ["sales"]
    with pytest.raises(rt.errors.TableNotFoundError, match="'Sales'"):
        client.table("Sales").drop()
    client.create_table("sales", FRAME, if_exists="append")
    assert client.table("sales").to_polars()["n"].to_list() == [1, 2, 1, 2]
    client.table("sales").drop()
    assert client.list_tables() == []
