"""Tables on a server that is not ours: the REST adapter of pylance, which speaks the Lance namespace specification."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from lance.namespace import RestAdapter

import rt_frames as rt
from rt_frames.errors import PayloadTooLarge, ResponseError, ServerError, TableExistsError, TableNotFoundError
from tests.support.compare import assert_same_values, lance
from tests.support.servers import KEY

if TYPE_CHECKING:
    from pathlib import Path

WORDS = pl.DataFrame({"word": ["a", None, "ccc"], "n": [1, 2, 3], "x": [1.5, None, -0.0]})


class Adapter:
    """The server, a client of it, and a look into its folder."""

    def __init__(self, root: Path, **options: str) -> None:
        self.root, self._server = root, RestAdapter("dir", {"root": str(root), **options}, port=0)

    def __enter__(self) -> Self:
        self.url = f"http://127.0.0.1:{self._server.__enter__().port}"
        rt.connect(self.url, api_key=KEY, dialect="lancedb")
        return self

    def __exit__(self, *error: object) -> None:
        rt.disconnect()
        self._server.__exit__(*error)

    def stored(self, name: str) -> pa.Table:
        return lance.dataset(str(self.root / f"{name}.lance")).to_table()


@pytest.fixture
def adapter(tmp_path):
    with Adapter(tmp_path) as running:
        yield running


NESTED = pl.DataFrame(
    {"s": [{"x": 1, "y": "p"}, None], "l": [[1, 2], []], "d": [None, 5], "k": ["u", "v"]},
    schema_overrides={"d": pl.Date, "k": pl.Categorical},
)
KINDS = pd.DataFrame(
    {"at": pd.to_datetime(["2020-01-02", None]), "k": pd.Categorical(["u", "v"]), "yes": [True, False]}
)
FRAMES = {
    "pandas": (WORDS.to_pandas(), WORDS),
    "pandas-kinds": (KINDS, KINDS),
    "polars": (WORDS, WORDS),
    "polars-nested": (NESTED, NESTED),
    "lazy": (WORDS.lazy(), WORDS),
    "arrow": (WORDS.to_arrow(), WORDS),
    "many": ([WORDS, WORDS], pl.concat([WORDS, WORDS])),
    "empty": (WORDS.head(0), WORDS.head(0)),
    "empty-pandas": (KINDS.head(0), KINDS.head(0)),
    "empty-lazy": (WORDS.lazy().filter(pl.col("n") > 3), WORDS.head(0)),
}


@pytest.mark.parametrize(("frame", "expected"), FRAMES.values(), ids=FRAMES)
def test_a_table_is_created_and_every_value_read_back(adapter, frame, expected):
    table = rt.to_table(frame, "t")
    assert (table.created, table.version, table.rows) == (True, 1, len(expected))
    is_pandas = isinstance(expected, pd.DataFrame)
    arrow = pa.Table.from_pandas(expected, preserve_index=False) if is_pandas else expected.to_arrow()
    assert_same_values(adapter.stored("t"), arrow)
    assert rt.list_tables() == ["t"]


def test_a_list_longer_than_a_page_is_followed_to_its_end(adapter):
    WORDS.remote.to_table("t0000")
    names = [f"t{i:04}" for i in range(1_001)]
    for name in names[1:]:
        (adapter.root / f"{name}.lance").symlink_to(adapter.root / "t0000.lance")
    assert rt.list_tables() == names


def test_a_taken_name_fails_is_skipped_or_is_replaced(adapter):
    other = pl.DataFrame({"other": [0.5]})
    WORDS.remote.to_table("t")
    with pytest.raises(TableExistsError, match="'t'"):
        other.remote.to_table("t")
    assert other.remote.to_table("t", if_exists="skip").created is False
    assert_same_values(adapter.stored("t"), WORDS.to_arrow())
    assert other.remote.to_table("t", if_exists="replace").version == 2
    assert_same_values(adapter.stored("t"), other.to_arrow())
    assert other.remote.to_table("new", if_exists="replace").version == 1
    assert rt.list_tables() == ["new", "t"]


def test_a_server_that_cannot_replace_says_that_the_name_is_taken(tmp_path):
    with Adapter(tmp_path, manifest_enabled="false") as adapter:
        WORDS.remote.to_table("t")
        with pytest.raises(TableExistsError, match=r"'t'.*409"):
            WORDS.head(1).remote.to_table("t", if_exists="replace")
        assert_same_values(adapter.stored("t"), WORDS.to_arrow())


def test_columns_are_renamed_and_may_be_null_inside_structs_too(adapter):
    NESTED.remote.to_table("t")
    table = rt.table("t").rename({"l": "numbers", "s.x": "z"}).set_nullable({"d": True})
    assert table.version == 3
    found = adapter.stored("t")
    assert found.schema.names == ["s", "numbers", "d", "k"]
    assert found.schema.field("s").type.names == ["z", "y"]


def test_a_table_is_described_and_follows_todays_frame(adapter):
    WORDS.remote.to_table("t")
    assert rt.table("t").schema == pa.schema({"word": pa.large_string(), "n": pa.int64(), "x": pa.float64()})
    today = WORDS.rename({"n": "number"})
    assert today.remote.alter_table("t", rename={"n": "number"}).version == 2
    assert_same_values(adapter.stored("t"), today.to_arrow())
    with pytest.raises(TableNotFoundError, match="'no'"):
        rt.table("no").schema  # noqa: B018  # asks


def test_a_description_that_leaves_out_units_is_refused_by_column(adapter):
    KINDS.remote.to_table("t")
    with pytest.raises(ResponseError, match=r"'t'.*schema\.fields\[0\].*'timestamp'"):
        rt.plan_alterations(rt.table("t"), KINDS)


def test_what_it_refuses_on_its_own_account_is_told_and_changes_nothing(adapter):
    table = WORDS.remote.to_table("t")
    with pytest.raises(ServerError, match="JSON string"):
        table.cast({"n": "int32"})
    with pytest.raises(PayloadTooLarge):
        rt.to_table(pa.table({"n": pa.array(range(300_000))}), "large", compression=None)
    assert_same_values(adapter.stored("t"), WORDS.to_arrow())
    assert rt.list_tables() == ["t"]
