"""Tables on another server: pylance's REST adapter of the Lance namespace."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from lance.namespace import RestAdapter

import rt_frames as rt
from rt_frames.errors import (
    PayloadTooLarge,
    ResponseError,
    ServerError,
    TableExistsError,
    TableNotFoundError,
)
from tests.support.compare import assert_same_values, lance
from tests.support.servers import KEY

WORDS = pl.DataFrame(
    {"word": ["a", None, "ccc"], "n": [1, 2, 3], "x": [1.5, None, -0.0]}
)


@pytest.fixture
def adapter(tmp_path):
    """The server, as the default client; yields a reader of its folder."""
    with (
        RestAdapter("dir", {"root": str(tmp_path)}, port=0) as server,
        rt.connect(f"http://127.0.0.1:{server.port}", api_key=KEY, dialect="lancedb"),
    ):
        yield lambda name: lance.dataset(str(tmp_path / f"{name}.lance")).to_table()


NESTED = pl.DataFrame(
    {
        "s": [{"x": 1, "y": "p"}, None],
        "l": [[1, 2], []],
        "d": [None, 5],
        "k": ["u", "v"],
    },
    schema_overrides={"d": pl.Date, "k": pl.Categorical},
)
KINDS = pd.DataFrame(
    {
        "at": pd.to_datetime(["2020-01-02", None]),
        "k": pd.Categorical(["u", "v"]),
        "yes": [True, False],
    }
)


def test_tables_are_created_listed_and_read_back_value_by_value(adapter):
    frames = [
        WORDS,
        WORDS.to_pandas(),
        KINDS,
        NESTED,
        WORDS.lazy(),
        WORDS.to_arrow(),
        KINDS.head(0),
        WORDS.head(0),
    ]
    for number, frame in enumerate([*frames, [WORDS, WORDS]]):
        table = rt.to_table(frame, f"t{number}")
        expected = pl.concat([WORDS, WORDS]) if isinstance(frame, list) else frame
        expected = (
            expected.collect() if isinstance(expected, pl.LazyFrame) else expected
        )
        is_pandas = isinstance(expected, pd.DataFrame)
        arrow = (
            pa.Table.from_pandas(expected, preserve_index=False)
            if is_pandas
            else pl.DataFrame(expected).to_arrow()
        )
        assert (table.created, table.version, table.rows) == (True, 1, len(expected))
        assert_same_values(adapter(table.name), arrow)
    assert rt.list_tables() == [f"t{number}" for number in range(len(frames) + 1)]


def test_a_list_longer_than_a_page_is_followed_to_its_end(adapter, tmp_path):
    WORDS.remote.to_table("t0000")
    names = [f"t{i:04}" for i in range(1_001)]
    for name in names[1:]:
        (tmp_path / f"{name}.lance").symlink_to(tmp_path / "t0000.lance")
    assert rt.list_tables() == names


def test_a_taken_name_fails_is_skipped_or_is_replaced(adapter):
    other = pl.DataFrame({"other": [0.5]})
    WORDS.remote.to_table("t")
    with pytest.raises(TableExistsError, match="'t'"):
        other.remote.to_table("t")
    assert other.remote.to_table("t", if_exists="skip").created is False
    assert_same_values(adapter("t"), WORDS.to_arrow())
    assert other.remote.to_table("t", if_exists="replace").version == 2
    assert_same_values(adapter("t"), other.to_arrow())
    assert other.remote.to_table("new", if_exists="replace").version == 1
    assert rt.list_tables() == ["new", "t"]


def test_a_table_is_described_and_follows_todays_frame_inside_structs_too(adapter):
    before = NESTED.drop("k")  # it does not tell that of dictionaries
    before.remote.to_table("t")
    assert rt.table("t").schema == before.remote.schema
    today = before.rename({"l": "numbers"}).cast(
        {"s": pl.Struct({"z": pl.Int64, "y": pl.String})}
    )
    assert (
        today.remote.alter_table("t", rename={"l": "numbers", "s.x": "z"}).version == 2
    )
    assert rt.table("t").set_nullable({"d": True}).version == 3
    found = adapter("t")
    assert (found.schema.names, found.schema.field("s").type.names) == (
        ["s", "numbers", "d"],
        ["z", "y"],
    )
    with pytest.raises(TableNotFoundError, match="'no'"):
        rt.table("no").schema  # noqa: B018  # asks
    KINDS.remote.to_table("kinds")  # of which it tells no units
    with pytest.raises(
        ResponseError, match=r"'kinds'.*schema\.fields\[0\].*'timestamp'"
    ):
        rt.plan_alterations(rt.table("kinds"), KINDS)


def test_what_it_refuses_on_its_own_account_is_told_and_changes_nothing(adapter):
    table = WORDS.remote.to_table("t")
    with pytest.raises(ServerError, match="JSON string"):
        table.cast({"n": "int32"})
    with pytest.raises(PayloadTooLarge):
        rt.to_table(
            pa.table({"n": pa.array(range(300_000))}), "large", compression=None
        )
    assert_same_values(adapter("t"), WORDS.to_arrow())
    assert rt.list_tables() == ["t"]
