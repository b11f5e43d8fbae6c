"""Tables on another server: pylance's REST adapter of the Lance namespace."""

from __future__ import annotations

import lance
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
from tests.support.compare import assert_same_values
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


NESTED_COLUMNS = {
    "s": [{"x": 1, "y": "p"}, None],
    "l": [[1, 2], []],
    "d": [None, 5],
    "k": ["u", "v"],
}
KIND_COLUMNS = {
    "at": pd.to_datetime(["2020-01-02", None]),
    "k": pd.Categorical(["u", "v"]),
    "yes": [True, False],
}
DTYPES = {"d": pl.Date, "k": pl.Categorical}
NESTED = pl.DataFrame(NESTED_COLUMNS, schema_overrides=DTYPES)
KINDS = pd.DataFrame(KIND_COLUMNS)
FRAMES = {
    "Polars": (WORDS, WORDS.to_arrow()),
    "kinds of pandas": (KINDS, pa.Table.from_pandas(KINDS, preserve_index=False)),
    "nested": (NESTED, NESTED.to_arrow()),
    "query": (WORDS.lazy(), WORDS.to_arrow()),
    "no rows": (WORDS[:0], WORDS[:0].to_arrow()),
    "list": ([WORDS, WORDS], pl.concat([WORDS, WORDS]).to_arrow()),
}


@pytest.mark.parametrize(("frame", "wanted"), FRAMES.values(), ids=FRAMES)
def test_tables_are_created_listed_and_read_back_value_by_value(adapter, frame, wanted):
    table = rt.to_table(frame, "t")
    assert table.created is True
    assert table.version == 1
    assert table.rows == wanted.num_rows
    assert_same_values(adapter("t"), wanted)
    assert rt.list_tables() == ["t"]


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
    rename = {"l": "numbers", "s.x": "z"}
    fields = pl.Struct({"z": pl.Int64, "y": pl.String})
    today = before.rename({"l": "numbers"}).cast({"s": fields})
    assert today.remote.alter_table("t", rename=rename).version == 2
    assert rt.table("t").set_nullable({"d": True}).version == 3
    found = adapter("t").schema
    assert found.names == ["s", "numbers", "d"]
    assert found.field("s").type.names == ["z", "y"]


def test_a_table_that_is_missing_is_named(adapter):
    table = rt.table("no")
    with pytest.raises(TableNotFoundError, match="'no'"):
        table.schema  # noqa: B018  # asks


def test_a_description_without_units_is_told(adapter):
    KINDS.remote.to_table("kinds")
    told = r"'kinds'.*schema\.fields\[0\].*'timestamp'"
    with pytest.raises(ResponseError, match=told):
        rt.plan_alterations(rt.table("kinds"), KINDS)


def test_what_it_refuses_on_its_own_account_is_told_and_changes_nothing(adapter):
    table = WORDS.remote.to_table("t")
    large = pa.table({"n": range(300_000)})
    with pytest.raises(ServerError, match="JSON string"):
        table.cast({"n": "int32"})
    with pytest.raises(PayloadTooLarge):
        rt.to_table(large, "large", compression=None)
    assert_same_values(adapter("t"), WORDS.to_arrow())
    assert rt.list_tables() == ["t"]
