"""Rows that replace those with their keys, or are added: all or none, in one commit."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames.errors import PayloadTooLarge, TableExistsError, UnsupportedTypeError
from tests.support.faults import connected
from tests.support.hosted import SMALL_PARTS, Hosted, Table
from tests.support.sources import FORMS

BASE = pa.table({"id": [1, 2, 3], "s": ["x", "y", None], "x": [0.5, None, 2.5]})
ROWS = pa.table({"s": ["Y", None, "new"], "id": [2, 1, 9]})
AFTER = [
    {"id": 1, "s": None, "x": 0.5},
    {"id": 2, "s": "Y", "x": None},
    {"id": 3, "s": None, "x": 2.5},
    {"id": 9, "s": "new", "x": None},
]


WITH_AN_INDEX = {"index": lambda rows: rows.to_pandas().set_index("id")}
EVERY_FORM = {**FORMS, **WITH_AN_INDEX}


@pytest.mark.parametrize("form", EVERY_FORM.values(), ids=EVERY_FORM)
def test_rows_of_every_form_are_matched_by_key_in_one_commit(place, name, form):
    place.create(name, BASE)
    table = place.upsert(name, form(ROWS))
    assert table.created is False
    assert table.version == 2
    assert table.rows == 3
    assert table.updated == 2
    assert table.inserted == 1
    assert place.rows(name) == AFTER
    assert place.read(name).schema == BASE.schema
    again = place.upsert(name, form(ROWS))
    assert again.updated == 3
    assert again.inserted == 0
    assert place.rows(name) == AFTER


DAY = dt.date(2024, 2, 29)
UUIDS = [uuid.UUID(int=number).bytes for number in range(3)]
DECIMALS = [Decimal(1), Decimal("-9.5"), Decimal(0)]
CODED = pa.dictionary(pa.int32(), pa.string())
CODED_NUMBERS = pa.dictionary(pa.int32(), pa.int64())
KEYS = [  # the table's keys, the last of which is new, their type, and that of the rows
    ([1, 2, 3], pa.int8(), pa.int64()),
    ([1, 2, 3], pa.int16(), pa.float64()),
    ([1, -(2**31), 3], pa.int32(), pa.decimal128(20, 2)),
    ([1, -(2**63), 255], pa.int64(), pa.uint8()),
    ([1, 2, 255], pa.uint8(), pa.uint8()),
    ([1, 2, 2**64 - 1], pa.uint64(), pa.uint64()),
    (["a", "A", ""], pa.string(), pa.large_string()),
    (["ä", "a\u0308", " "], pa.large_string(), pa.string()),
    ([b"", b"\0", b"\xff"], pa.binary(), pa.large_binary()),
    ([b"", b"\0", b"x"], pa.large_binary(), pa.binary()),
    ([b"ab", b"cd", b"\0\0"], pa.binary(2), pa.binary()),
    ([DAY, dt.date(1, 1, 1), dt.date.max], pa.date32(), pa.timestamp("us")),
    ([0, 1, 86_399_999_999], pa.time64("us"), pa.time64("ns")),
    ([0, 1, 86_399], pa.time32("s"), pa.time32("ms")),
    ([0, 1, 2**37], pa.timestamp("s"), pa.timestamp("ms")),
    ([0, 1, -(2**62)], pa.timestamp("ns"), pa.timestamp("ns")),
    ([0, 1, -(2**50)], pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC")),
    (DECIMALS, pa.decimal128(38, 4), pa.decimal128(20, 2)),
    ([1, 2, 3], pa.decimal256(70, 1), pa.int64()),
    ([True, None, False], pa.bool_(), pa.bool_()),
    (UUIDS, pa.uuid(), pa.uuid()),
    (["u", "v", "w"], CODED, pa.string()),
    (["u", "v", "w"], pa.string(), CODED),
    ([7, 8, 9], CODED_NUMBERS, CODED_NUMBERS),
]


def printed_keys(table: pa.Table) -> str:
    """Print keys in order of their numbers; Python has no objects for some."""
    keys = table.sort_by("n")["id"]
    if pa.types.is_dictionary(keys.type):
        keys = keys.cast(keys.type.value_type)
    return keys.combine_chunks().to_string()


@pytest.mark.parametrize(("values", "arrow", "other"), KEYS, ids=str)
def test_keys_of_every_allowed_type_are_matched_exactly(
    place, name, values, arrow, other
):
    first, second, new = values
    place.create(name, pa.table({"id": pa.array([first, second], arrow), "n": [0, 1]}))
    rows = pa.table({"n": [10, 20], "id": in_type([new, first], arrow, other)})
    table = place.upsert(name, rows)
    assert table.updated == 1
    assert table.inserted == 1
    after = pa.table({"id": pa.array(values, arrow), "n": [20, 1, 10]})
    found = place.read(name)
    assert printed_keys(found) == printed_keys(after)
    assert found.schema.field("id").type == arrow
    twice = pa.concat_tables([rows, rows])
    with pytest.raises(UnsupportedTypeError, match=r"rows \d and \d have the same"):
        place.upsert(name, twice)
    assert place.open(name).version == 2


def in_type(values: list, arrow: pa.DataType, other: pa.DataType) -> pa.Array:
    """Return values of one type in another."""
    keys = pa.array(values, arrow)
    return keys if arrow == other else keys.cast(other)


NOT_KEYS = {
    "float": pa.array([0.5, 1.5]),
    "duration": pa.array([0, 1], pa.duration("s")),
    "list": pa.array([[1], [2]]),
    "struct": pa.array([{"a": 1}, {"a": 2}]),
    "JSON": pa.array(["1", "2"], pa.json_(pa.string())),
    "float categories": pa.array([0.5, 1.5]).dictionary_encode(),
}


@pytest.mark.parametrize("keys", NOT_KEYS.values(), ids=NOT_KEYS)
def test_other_types_are_no_keys(place, name, keys):
    table = pa.table({"id": keys})
    words = r"column 'id' is .* cannot be a key"
    with pytest.raises(UnsupportedTypeError, match=words):
        place.upsert(name, table)
    assert name not in place.client.list_tables()
    place.create(name, table)
    with pytest.raises(UnsupportedTypeError, match=words):
        place.upsert(name, table)
    assert place.open(name).version == 1


# Refused by row


def test_a_double_far_from_the_first_rows_is_found(place, name):
    place.create(name, pa.table({"id": [0], "s": ["x"]}))
    rows = pa.table({"id": [*range(200_000), 70_000], "s": ["x"] * 200_001})
    for keys in ("id", ["id", "s"]):
        with pytest.raises(UnsupportedTypeError, match="rows 70000 and 200000 "):
            place.upsert(name, rows, keys)


FAR = [
    (6_000_000, pa.date32(), "18397-06-11"),
    (2**31 - 1, pa.date32(), "2147483647 as date"),
    (2**60, pa.timestamp("ms", "UTC"), "1152921504606846976 as"),
    (1, pa.time64("ns"), "00:00:00.000000001"),
]


@pytest.mark.parametrize(("value", "arrow", "shown"), FAR, ids=str)
def test_equal_keys_that_python_has_no_value_for_are_shown(
    place, name, value, arrow, shown
):
    rows = pa.table({"id": pa.array([value, value], arrow)})
    with pytest.raises(UnsupportedTypeError, match=f"rows 0 and 1 .* id={shown}"):
        place.create(name, rows, if_exists="upsert", on="id")


@pytest.mark.parametrize("keys", [["id"], ["part", "id"]], ids=str)
def test_a_null_key_is_refused_as_one_where_the_table_allows_no_nulls(
    place, name, keys
):
    id_ = pa.field("id", pa.int64(), nullable=False)
    part = pa.field("part", pa.int64(), nullable=False)
    place.create(name, pa.schema([id_, part]).empty_table())
    rows = pa.table({"id": [2, None], "part": [7, 8]})
    with pytest.raises(UnsupportedTypeError, match="'id', row 1: the key is null"):
        place.upsert(name, rows, on=keys)
    assert place.open(name).version == 1


REFUSED = [
    ([4, 5, None], r"column 'id', row 2: the key is null"),
    ([4, 5, 4], r"rows 0 and 2 have the same key, id=4"),
]


@pytest.mark.parametrize(("ids", "words"), REFUSED, ids=str)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_row_that_cannot_be_matched_is_refused_with_nothing_stored(
    place, name, ids, words, form
):
    place.create(name, BASE)
    rows = pa.table({"id": ids, "s": ["s"] * 3})
    with pytest.raises(UnsupportedTypeError, match=words) as refused:
        place.upsert(name, form(rows))
    assert refused.value.columns == ("id",)
    assert place.open(name).version == 1
    assert place.upsert(name, ROWS).version == 2


def test_the_row_of_a_null_key_is_counted_over_batches(place, name):
    rows = pa.table({"id": [*range(3_000_000), None]})
    with pytest.raises(UnsupportedTypeError, match="row 3000000: the key is null"):
        place.upsert(name, rows.to_reader(max_chunksize=1_000_000))


@pytest.mark.parametrize("form", [FORMS["Arrow"], FORMS["reader"]])
def test_the_first_upsert_checks_keys_too(place, name, form):
    with pytest.raises(UnsupportedTypeError, match="rows 0 and 1 have the same key"):
        place.upsert(name, form(BASE.take([0, 0])))
    assert name not in place.client.list_tables()
    made = place.upsert(name, form(BASE))
    assert made.created is True
    assert made.rows == 3
    assert place.upsert(name, ROWS).updated == 2
    assert place.rows(name) == AFTER


def test_keys_that_are_one_only_after_the_cast_are_refused(place, name):
    place.create(name, pa.table({"id": [Decimal("1.50")]}))
    whole = pl.DataFrame({"id": [5]})
    mixed = iter([whole, whole.cast(pl.Int8)])
    with pytest.raises(UnsupportedTypeError, match="rows 0 and 1 have the same key"):
        place.upsert(name, mixed)


def test_rows_of_the_table_with_one_key_are_all_updated_and_null_keys_never(
    place, name, caplog
):
    place.create(name, pa.table({"id": [1, 1, None], "s": ["a", "b", "c"]}))
    table = place.upsert(name, pa.table({"id": [1], "s": ["n"]}))
    assert table.updated == 2
    assert table.inserted == 0
    assert "several rows with the same key" in caplog.text
    assert sorted(place.read(name)["s"].to_pylist()) == ["c", "n", "n"]


def test_column_names_may_be_odd(place, name):
    odd = "é b%&=+ ?#'"
    base = pa.table({odd: [1, 2], "n": [1, 2]})
    place.create(name, base)
    assert place.upsert(name, base.set_column(1, "n", [[3, 4]]), on=odd).updated == 2
    assert place.rows(name, odd) == [{odd: 1, "n": 3}, {odd: 2, "n": 4}]


# Several keys


SHOPS = pa.table({"shop": ["a", "a", "b"], "day": [1, 2, 1], "n": [1, 2, 3]})


def test_several_keys_identify_a_row_together(place, name):
    place.create(name, SHOPS)
    rows = pl.DataFrame({"n": [20, 40], "day": [2, 2], "shop": ["a", "b"]})
    table = place.upsert(name, rows, on=["shop", "day"])
    assert table.updated == 1
    assert table.inserted == 1
    found = [tuple(row.values()) for row in place.rows(name, "n")]
    assert found == [("a", 1, 1), ("b", 1, 3), ("a", 2, 20), ("b", 2, 40)]


def test_a_row_of_several_keys_is_shown_with_all_of_them(place, name):
    place.create(name, SHOPS)
    words = "rows 0 and 3 have the same key, shop='a', day=1"
    with pytest.raises(UnsupportedTypeError, match=words):
        place.upsert(name, iter([SHOPS, SHOPS[:1]]), on=("shop", "day"))
    assert place.open(name).version == 1


UNUSABLE = [  # beside those in test_mistakes.py
    ([], r"on: expected the name of a column.*, got \[\]"),
    ([1], r"on: expected the name of a column.*, got \[1\]"),
    (7, "on: expected the name of a column.*, got 7"),
]


@pytest.mark.parametrize(("on", "words"), UNUSABLE)
def test_keys_that_cannot_be_used_are_refused_by_name(place, name, on, words):
    place.create(name, BASE)
    with pytest.raises(ValueError, match=words):
        place.upsert(name, ROWS, on=on)
    assert place.open(name).version == 1


def test_a_key_with_a_double_quote_is_refused_before_the_first_upsert(place, name):
    rows = pa.table({'a"b': [1], "x": [2]})
    with pytest.raises(ValueError, match=r"on: .* has a double quote"):
        place.upsert(name, rows, on='a"b')
    assert name not in place.client.list_tables()


def test_a_key_that_only_the_frame_has_is_refused(place, name):
    place.create(name, BASE)
    rows = ROWS.append_column("key", [[7, 8, 9]])
    with pytest.raises(ValueError, match="on: the table has no column 'key'"):
        place.upsert(name, rows, on="key", add_columns=True)
    assert place.open(name).version == 1


# What is told


def test_the_frame_in_a_chain_goes_on(place, name):
    place.create(name, BASE)
    frame = pl.from_arrow(ROWS)
    options = {"client": place.client, "if_exists": "upsert", "on": "id"}
    assert frame.pipe(rt.tee, name, **options) is frame
    assert frame.remote.tee(name, **options) is frame
    assert place.rows(name) == AFTER


@pytest.mark.parametrize("make", [pl.from_arrow, pa.Table.to_pandas, pa.table])
def test_the_schema_of_a_frame_is_that_of_its_table(place, name, make):
    frame = make(BASE)
    made = place.create(name, frame)
    assert made.schema == rt.schema(frame)
    assert place.read(name).schema == rt.schema(frame)


def test_the_schema_of_a_reader_is_its_own():
    assert rt.schema(BASE.to_reader(max_chunksize=1)) == BASE.schema


# Columns that are added first


def test_a_frame_in_memory_is_checked_before_columns_are_added(place, name):
    place.create(name, BASE)
    rows = pa.table({"id": [1, 1], "new": [1, 2]})
    with pytest.raises(UnsupportedTypeError) as refused:
        place.upsert(name, rows, add_columns=True)
    assert not hasattr(refused.value, "__notes__")
    assert place.open(name).version == 1


# Servers


class Merging(Hosted):
    """A hosted service with upserts of one key."""

    counts = True

    def merge_insert(self, table: Table, _name, query, rows, _body):
        key = query["on"]
        known = {row[key]: row for row in table.rows.to_pylist()}
        new = {row[key]: row for row in rows.to_pylist()}
        updated = len(known.keys() & new.keys())
        for value, row in new.items():
            known[value] = {**known.get(value, {}), **row}
        merged = pa.Table.from_pylist([*known.values()], table.rows.schema)
        table.versions.append([merged])
        if not self.counts:
            return 200, {}
        counts = {"num_updated_rows": updated, "num_inserted_rows": len(new) - updated}
        return 200, {"version": len(table.versions), **counts}


@pytest.fixture
def hosted():
    return Merging()


@pytest.fixture
def client(hosted):
    with hosted.connect(retries=2, timeout=20) as client:
        client.create_table("t", BASE)
        del hosted.steps[:]
        yield client


def by_id(hosted):
    return sorted(hosted.tables["t"].rows.to_pylist(), key=lambda row: row["id"])


def upsert(client, data, on="id", **options):
    return client.create_table("t", data, if_exists="upsert", on=on, **options)


def test_a_hosted_service_upserts_by_one_key(hosted, client):
    table = upsert(client, ROWS)
    assert table.updated == 2
    assert table.inserted == 1
    assert table.version == 2
    assert by_id(hosted) == AFTER
    hosted.counts = False
    table = upsert(client, ROWS)
    assert table.updated is None
    assert table.inserted is None
    assert table.version is None
    assert "updated" not in repr(table)
    sent = next(post for post in hosted.server.posts if "merge_insert" in post.path)
    assert sent.path.endswith(
        "/merge_insert/?on=id&when_matched_update_all=true"
        "&when_not_matched_insert_all=true&when_not_matched_by_source_delete=false"
    )


def test_several_keys_are_sent_to_no_hosted_service(hosted, client):
    with pytest.raises(ValueError, match="on: only a folder"):
        upsert(client, ROWS, on=["id", "s"])
    assert "merge_insert" not in hosted.steps
    assert len(hosted.tables["t"].versions) == 1


# Who loses the race to create it


@pytest.mark.parametrize("form", [FORMS["Arrow"], FORMS["LazyFrame"]])
def test_who_loses_the_race_to_create_upserts(hosted, client, form):
    del hosted.tables["t"]

    def somebody_creates(done: str) -> None:
        if done == "describe":
            hosted.tables.setdefault("t", Table([[BASE]]))

    hosted.changed = somebody_creates
    table = upsert(client, form(ROWS))
    assert table.created is False
    assert table.updated == 2
    assert table.inserted == 1
    assert by_id(hosted) == AFTER


def test_who_loses_it_with_rows_that_come_once_is_told(hosted, client):
    del hosted.tables["t"]
    hosted.changed = lambda _: hosted.tables.setdefault("t", Table([[BASE]]))
    with pytest.raises(TableExistsError):
        upsert(client, iter([ROWS]))
    assert hosted.tables["t"].versions == [[BASE]]
    assert upsert(client, iter([ROWS])).updated == 2


@pytest.fixture
def in_parts(hosted, client):
    """A client that sends the first upsert of a table in parts."""
    del hosted.tables["t"]
    with connected(hosted.server, dialect=SMALL_PARTS, timeout=20) as sender:
        sender.list_tables()
        del hosted.steps[:]
        yield sender


def parts(ids):
    for number in ids:
        yield pa.table({"id": [number], "s": [bytes(60_000)]})


def test_the_first_upsert_may_go_in_parts(hosted, in_parts):
    made = upsert(in_parts, parts(range(4)))
    assert made.created is True
    assert made.rows == 4
    assert made.inserted is None
    assert hosted.steps.count("part") > 1
    assert "merge_insert" not in hosted.steps
    assert hosted.tables["t"].rows["id"].to_pylist() == [0, 1, 2, 3]
    assert upsert(in_parts, pa.table({"id": [3, 4]})).inserted == 1


def test_its_keys_are_checked_before_the_commit(hosted, in_parts):
    with pytest.raises(UnsupportedTypeError, match="rows 0 and 3 have the same key"):
        upsert(in_parts, parts([5, 6, 7, 5]))
    assert "complete" not in hosted.steps
    assert not hosted.tables
    assert not hosted.uploads


# Bodies of any size


MANY = 12
PAYLOAD = pa.array([bytes(8_000_000)], pa.large_binary())


def large():
    """Give 96 MB in batches of one row."""
    for number in range(MANY):
        yield pa.table({"id": [number], "s": PAYLOAD})


@pytest.mark.parametrize("streamed", [False, True])
def test_an_upsert_above_90_000_000_bytes_is_stopped_with_nothing_stored(
    hosted, client, streamed
):
    base = pa.table({"id": [1], "s": pa.array([b""], pa.large_binary())})
    hosted.tables["t"] = Table([[base]])
    data = large() if streamed else pa.concat_tables(large())
    with pytest.raises(PayloadTooLarge, match=r"no row was stored.*several calls"):
        upsert(client, data, compression=None)
    posts = [post for post in hosted.server.posts if "merge_insert" in post.path]
    assert [post.complete for post in posts] == [False] * streamed
    assert len(hosted.tables["t"].versions) == 1


def test_an_upsert_is_counted_as_it_goes_over_the_wire(hosted, client):
    base = pa.table({"id": [1], "s": pa.array([b""], pa.large_binary())})
    hosted.tables["t"] = Table([[base]])
    assert upsert(client, large(), compression="zstd").inserted == MANY - 1


def test_a_folder_takes_upserts_of_any_size(place, name):
    place.create(name, pa.table({"id": [1], "s": pa.array([b""], pa.large_binary())}))
    table = place.upsert(name, large(), compression=None)
    assert table.updated == 1
    assert table.inserted == MANY - 1
    assert table.nbytes > 90_000_000
    sizes = pa.compute.binary_length(place.read(name)["s"])
    assert sizes.unique().to_pylist() == [8_000_000]
    table.drop()


def test_a_key_whose_name_looks_like_a_pattern_is_a_name(place, name):
    place.create(name, pl.DataFrame({"^a$": [1, 2], "a": [10, 20]}))
    place.upsert(name, pl.DataFrame({"^a$": [2, 3], "a": [21, 30]}), on="^a$")
    assert [row["a"] for row in place.rows(name, "^a$")] == [10, 21, 30]
