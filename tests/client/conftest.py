from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import rt_frames as rt

_NUMBERS = itertools.count()


@dataclass
class Place:
    """A client of a folder, and the folder."""

    client: rt.Client
    root: Path

    def create(self, name: str, data: object, **options: object) -> rt.RemoteTable:
        return rt.to_table(data, name, client=self.client, **options)

    def table(self, name: str, version: object = None) -> rt.RemoteTable:
        return self.client.table(name, version=version)

    def upsert(self, name: str, data: object, on="id", **options) -> rt.RemoteTable:
        return self.create(name, data, if_exists="upsert", on=on, **options)

    def append(self, name: str, data: object, **options: object) -> rt.RemoteTable:
        return self.create(name, data, if_exists="append", **options)

    def open(self, name: str) -> lance.LanceDataset:
        return lance.dataset(str(self.root / f"{name}.lance"))

    def read(self, name: str) -> pa.Table:
        return self.open(name).to_table()

    def rows(self, name: str, by: str = "id") -> list[dict[str, object]]:
        """Return the rows in order of a column: an upsert moves those it updates."""
        rows = self.read(name).to_pylist()
        return sorted(rows, key=lambda row: (row[by] is None, row[by]))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder, in which the tests of a module make tables of their own names."""
    root = tmp_path_factory.mktemp("place") / "tables"
    with rt.connect(root, default=False) as client:
        yield Place(client, root)


@pytest.fixture
def name(request):
    """A table name that no other test has."""
    text = re.sub(r"\W", "_", request.node.name, flags=re.ASCII)
    return f"{text[:80]}_{next(_NUMBERS)}"
