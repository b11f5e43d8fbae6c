"""Tables of a folder, at both kinds of addresses.

They are created, listed, described, altered and replaced.
"""

from __future__ import annotations

import datetime as dt
import itertools
import os
import shutil
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import lance
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.local import TABLE, Caller, manifests, message, run, stream

OTHER = pa.table(
    {
        "other": [1.5, None],
        "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
    }
)


def put(caller, name, table, mode="create", slash="/"):
    return caller.post_rows(f"{name}/create{slash}?mode={mode}", table)


def files(caller) -> int:
    return len(list((caller.root / "t.lance" / "data").iterdir()))


POINT = pa.struct([("x", pa.int32()), ("y", pa.large_string())])
NEW_YEAR = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
OLD_YEAR = dt.datetime(1969, 1, 1, tzinfo=dt.UTC)
COLUMNS = {
    "bool": (pa.bool_(), [True, None, False]),
    "uint64": (pa.uint64(), [2**64 - 1, None, 0]),
    "half": (pa.float16(), [0.5, None, -2.0]),
    "text": (pa.large_string(), ["é", None, ""]),
    "bytes": (pa.binary(), [b"\x00\xff", None, b""]),
    "fixed": (pa.binary(2), [b"ab", None, b"cd"]),
    "day": (pa.date32(), [dt.date(1600, 1, 1), None, dt.date(2030, 12, 31)]),
    "time": (pa.time64("us"), [dt.time(1, 2, 3, 4), None, dt.time(0)]),
    "at": (pa.timestamp("us", "UTC"), [NEW_YEAR, None, OLD_YEAR]),
    "lasted": (pa.duration("ms"), [dt.timedelta(0, 0, 5000), None, dt.timedelta(-1)]),
    "price": (pa.decimal128(38, 4), [Decimal("1.2345"), None, Decimal(-9)]),
    "huge": (pa.decimal256(70, 1), [Decimal(10) ** 60, None, Decimal("0.5")]),
    "list": (pa.large_list(pa.int8()), [[1, None], None, []]),
    "vector": (pa.list_(pa.float32(), 2), [[1.0, 2.0], None, [3.0, None]]),
    "point": (POINT, [{"x": 1, "y": "a"}, None, {"x": None, "y": None}]),
    "points": (pa.list_(POINT), [[{"x": 1, "y": "a"}, None], None, []]),
    "map": (pa.map_(pa.string(), pa.int64()), [[("k", 1)], None, []]),
    "kind": (pa.dictionary(pa.int32(), pa.string()), ["u", None, "v"]),
}
numbers = itertools.count()


def pieces(body, size):
    for start in range(0, len(body), size):
        yield body[start : start + size]


@settings(max_examples=settings.default.max_examples // 25)
@given(
    st.sets(st.sampled_from(sorted(COLUMNS)), min_size=1).map(sorted),
    st.lists(st.integers(0, 2), max_size=20),
    st.sampled_from([None, "lz4", "zstd"]),
    st.sampled_from([1, 3, 700]),
    st.sampled_from([None, 7, 1000, 2**20]),
)
@example(sorted(COLUMNS), [0, 1, 2], None, 700, None)
@example(sorted(COLUMNS), [], None, 700, None)
@example(["kind"], [0, 1, 2, 2, 0], None, 2, None)
@example(["text", "uint64"], [0, 1, 2] * 1000, "zstd", 700, 7)
def test_whatever_is_sent_is_read_back(
    caller, columns, rows, compression, batch, chunk
):
    batches = []
    for start in range(0, max(len(rows), 1), batch):
        arrays = {}
        for column in columns:
            arrow, values = COLUMNS[column]
            chosen = [values[row] for row in rows[start : start + batch]]
            # each batch has a dictionary of its own
            arrays[column] = pa.array(chosen, arrow)
        batches.append(pa.table(arrays))
    table = pa.concat_tables(batches)
    name = f"t{next(numbers)}"
    body = stream(table, compression=compression)
    if chunk is not None:
        body = pieces(body, chunk)
    answer = caller.create(name, body)
    assert answer.status_code == 200
    assert answer.json() == {"version": 1}
    back = caller.read(name)
    assert back.schema.equals(table.schema)
    assert back.to_pydict() == table.to_pydict()
    shutil.rmtree(caller.root / f"{name}.lance")


def test_a_list_has_tables_alone_sorted_and_comes_in_pages_of_the_size_asked_for(
    caller,
):
    for name in ("b", "c", "a.1", "_c", "a"):
        assert caller.create(name, TABLE).status_code == 200
    for folder in ("empty.lance", "notes"):
        (caller.root / folder).mkdir()
    for path in (
        "/v1/tables",
        "/v1/namespace/$/table/list",
        "/v1/namespace/%24/table/list",
        "/v1/table/",
    ):
        found = caller.send("GET", path).json()
        assert found == {"tables": ["_c", "a", "a.1", "b", "c"]}
        first = caller.send("GET", f"{path}?limit=2").json()
        assert first["tables"] == ["_c", "a"]
        token = first["page_token"]
        second = caller.send("GET", f"{path}?limit=3&page_token={token}").json()
        assert second == {"tables": ["a.1", "b", "c"]}
        for limit in ("0", "-1", "x", "1.5", "\N{SUPERSCRIPT TWO}", "9" * 30):
            answer = caller.send("GET", f"{path}?limit={limit}")
            assert "limit" in message(answer, 400)


@pytest.mark.parametrize("limit", [1, 20, 198])
def test_a_page_of_a_list_looks_at_its_own_tables_alone(tmp_path, limit):
    for number in range(200):
        (tmp_path / f"t{number:03}.lance" / "_versions").mkdir(parents=True)
    calls: Counter[str] = Counter()

    def count_call(_frame, event, called):
        if event == "c_call":
            calls[called.__name__] += 1

    threading.setprofile(count_call)
    try:
        path = f"/v1/tables?limit={limit}&page_token=t000"
        # a new thread, which is profiled
        with ThreadPoolExecutor(1) as pool:
            page = pool.submit(Caller(tmp_path).send, "GET", path).result()
    finally:
        threading.setprofile(None)
    assert len(page.json()["tables"]) == limit
    # and at the one that decides whether there is another page
    assert calls["stat"] == limit + 1


@pytest.mark.parametrize(
    "columns", [1000, pytest.param(10_000, marks=pytest.mark.long)]
)
def test_a_column_of_nulls_and_thousands_of_columns_are_stored(caller, columns):
    wide = pa.table({f"c{i}": [i] for i in range(columns - 1)})
    wide = wide.append_column("nothing", pa.nulls(1))
    assert caller.create("wide", wide).status_code == 200
    assert caller.read("wide").equals(wide)
    backwards = wide.select(wide.column_names[::-1])
    assert caller.post_rows("wide/insert/", backwards).status_code == 200
    assert caller.read("wide").equals(pa.concat_tables([wide, wide]))


LARGE = """
import sys, pyarrow as pa, rt_frames as rt
from tests.support.processes import memory, reset_peak
batch = pa.record_batch({f"c{i}": range(i, i + 250_000) for i in range(8)})
assert 20 * batch.nbytes > 300 * 2**20
with rt.connect(sys.argv[1], default=False) as client:
    client.create_table("warm", batch)
    reset_peak()
    before = memory("VmHWM")
    client.create_table("big", (batch for _ in range(20)))
    print(memory("VmHWM") - before)
"""


def test_a_table_much_larger_than_the_memory_it_may_take_goes_through(tmp_path):
    assert int(run(LARGE, tmp_path)) < 150 * 2**20
    big = lance.dataset(str(tmp_path / "big.lance"))
    assert big.count_rows() == 5_000_000
    assert big.take([0, 4_999_999], columns=["c7"])["c7"].to_pylist() == [7, 250_006]


def test_thousands_of_columns_are_renamed_in_one_request_and_bounded_time(caller):
    names = [f"c{i}" for i in range(4000)]
    table = pa.table({name: [1] for name in names})
    lance.write_dataset(table, str(caller.root / "wide.lance"))
    renames = [{"path": name, "rename": f"{name}_new"} for name in names]
    started = time.monotonic()
    answer = caller.alter("wide", *renames)
    assert answer.status_code == 200
    assert answer.json() == {"version": 2}
    # Lance takes most of it; walking over all names for each path took longer
    assert time.monotonic() - started < 8
    found = lance.dataset(str(caller.root / "wide.lance")).schema.names
    assert found == [f"{name}_new" for name in names]


def test_who_has_a_replaced_table_open_goes_on_reading_its_old_rows(caller):
    assert put(caller, "t", TABLE, "Overwrite").json() == {"version": 1}
    old = lance.dataset(str(caller.root / "t.lance"))
    for i, table in enumerate((OTHER, TABLE[:0], TABLE, OTHER[:0], OTHER), 2):
        assert put(caller, "t", table, "overwrite").json() == {"version": i}
        assert caller.read("t").equals(table)
        assert caller.ask("describe").json()["version"] == i
    assert old.to_table().equals(TABLE)
    assert caller.tables() == ["t"]
    assert caller.post_rows("t/insert/?mode=APPEND", OTHER).json() == {"version": 7}


UNIT = {"unit": "µm"}
PRIMARY_KEY = {"lance-schema:unenforced-primary-key": "true"}
UUID = {"ARROW:extension:name": "arrow.uuid"}
JSON_TEXT = {"ARROW:extension:name": "arrow.json"}
INSIDE = pa.struct(
    [
        pa.field("x", pa.int32(), metadata=UNIT),
        pa.field("u", pa.uuid()),
        pa.field("plain", pa.int8()),
    ]
)
INSIDE_TOLD = {"x": UNIT, "u": UUID, "plain": None}
CATEGORY = pa.dictionary(pa.int32(), pa.string())
SIX = pa.fixed_shape_tensor(pa.int8(), [2, 3])
TENSOR = {
    "ARROW:extension:name": "arrow.fixed_shape_tensor",
    "ARROW:extension:metadata": '{"shape":[2,3]}',
}
ITEMS = pa.list_(pa.field("item", INSIDE, metadata=UNIT))
DOCUMENTS = pa.field("value", pa.json_(pa.string()), metadata=UNIT)
MAP = pa.map_(pa.string(), DOCUMENTS)
MAP_TOLD = {"entries": None, "key": None, "value": {**UNIT, **JSON_TEXT}}
TOLD = {  # a field, its metadata, and that of the fields inside it
    "plain": (pa.field("f", pa.int8()), None, {}),
    "a unit": (pa.field("f", pa.large_string(), metadata=UNIT), UNIT, {}),
    "a key": (pa.field("f", pa.int64(), False, PRIMARY_KEY), PRIMARY_KEY, {}),
    "uuid": (pa.field("f", pa.uuid(), metadata=UNIT), {**UNIT, **UUID}, {}),
    "json": (pa.field("f", pa.json_(pa.string())), JSON_TEXT, {}),
    "a category": (pa.field("f", CATEGORY, metadata=UNIT), UNIT, {}),
    "a tensor": (pa.field("f", SIX), TENSOR, {"item": None}),
    "a struct": (pa.field("f", INSIDE, metadata=UNIT), UNIT, INSIDE_TOLD),
    "a list": (pa.field("f", ITEMS), None, {"item": UNIT, **INSIDE_TOLD}),
    "a list of uuids": (pa.field("f", pa.large_list(pa.uuid())), None, {"item": UUID}),
    "a map": (pa.field("f", MAP), None, MAP_TOLD),
}


def metadata_inside(field):
    found = {}
    for inside in field["type"].get("fields", []):
        found |= {inside["name"]: inside.get("metadata"), **metadata_inside(inside)}
    return found


@pytest.mark.parametrize(("field", "metadata", "inside"), TOLD.values(), ids=TOLD)
def test_metadata_of_schema_and_fields_are_described_and_read_at_every_depth(
    caller, field, metadata, inside
):
    values = pa.nulls(2, field.type)
    if not field.nullable:
        values = pa.array([1, 2], field.type)
    schema = pa.schema([field, field.with_name("g")], {"a": "b"})
    table = pa.table([values, values], schema)
    assert caller.create("t", table).status_code == 200
    schema = caller.ask("describe").json()["schema"]
    assert schema["metadata"] == {"a": "b"}
    for one in schema["fields"]:
        assert (one.get("metadata"), metadata_inside(one)) == (metadata, inside)
    for asked in ({}, {"columns": ["g", "f"], "filter": "true", "k": 1}):
        answer = caller.ask("query", **asked)
        found = pa.ipc.open_stream(answer.content).schema
        kept = lance.dataset(str(caller.root / "t.lance")).schema
        assert found.metadata == {b"a": b"b"}
        for name in ("f", "g"):
            assert found.field(name).equals(kept.field(name), check_metadata=True)
            assert found.field(name).type == field.type


def test_tables_that_older_engines_wrote_are_replaced(caller):
    for version in ("legacy", "2.0", "2.1"):
        lance.write_dataset(
            TABLE,
            str(caller.root / "t.lance"),
            data_storage_version=version,
            mode="overwrite",
        )
        assert put(caller, "t", OTHER, "overwrite").status_code == 200
        assert caller.read("t").equals(OTHER)
        shutil.rmtree(caller.root / "t.lance")


DAMAGES = {  # more in test_power.py and test_damage.py
    "rubbish": lambda manifest: manifest.write_bytes(b"damaged" * 100),
    "gone": lambda manifest: manifest.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_table_that_cannot_be_opened_can_be_replaced_and_dropped(caller, damage):
    for name in ("t", "u"):
        caller.create(name, TABLE)
        damage(manifests(caller.root, name)[1])
    assert put(caller, "t", OTHER, "overwrite").status_code == 200
    assert caller.read("t").equals(OTHER)
    assert caller.send("POST", "/v1/table/u/drop/").status_code == 200
    assert caller.tables() == ["t"]


def test_a_table_that_cannot_be_opened_is_to_be_dropped_before_a_write_in_parts(caller):
    caller.create("t", TABLE)
    manifests(caller.root)[1].write_bytes(b"")
    answer = caller.send("POST", "/v1/table/t/multipart_write/create/")
    assert "drop or replace the table" in message(answer, 500)
    assert caller.tables() == ["t"]


def test_of_a_table_that_is_a_link_the_link_is_dropped(caller, tmp_path):
    lance.write_dataset(TABLE, str(tmp_path / "elsewhere"))
    (caller.root / "t.lance").symlink_to(tmp_path / "elsewhere")
    assert caller.tables() == ["t"]
    assert caller.send("POST", "/v1/table/t/drop/").status_code == 200
    assert (caller.tables(), caller.staged()) == ([], [])
    assert lance.dataset(str(tmp_path / "elsewhere")).to_table().equals(TABLE)


def test_what_is_in_the_way_and_no_table_is_named_and_left_alone(caller):
    place = caller.root / "t.lance"
    ways = {
        "half a table": (
            lambda: (place / "data").mkdir(parents=True),
            lambda: shutil.rmtree(place),
        ),
        "file": (lambda: place.write_text("mine"), place.unlink),
        "dangling link": (
            lambda: place.symlink_to(caller.root / "nowhere"),
            place.unlink,
        ),
        "pipe": (lambda: os.mkfifo(place), place.unlink),
    }
    for what, (make, remove) in ways.items():
        make()
        for answer in (
            caller.create("t", TABLE),
            put(caller, "t", TABLE),
            put(caller, "t", TABLE, "overwrite"),
        ):
            assert "'t.lance'" in message(answer, 400), what
        assert (os.path.lexists(place), caller.tables()) == (True, [])
        remove()


def test_a_bad_stream_mode_or_commit_leaves_the_table_and_its_files_as_they_were(
    caller,
):
    caller.create("t", TABLE)
    cut = caller.post_rows("t/create/?mode=overwrite", stream(OTHER)[:-8])
    assert cut.status_code == 400
    assert put(caller, "t", OTHER, "append").status_code == 400
    transactions = caller.root / "t.lance" / "_transactions"
    shutil.rmtree(transactions)
    transactions.write_text("in the way")
    answer = put(caller, "t", OTHER, "overwrite")
    assert "file system" in message(answer, 507)
    assert caller.read("t").equals(TABLE)
    assert (caller.version("t"), files(caller)) == (1, 1)
    transactions.unlink()
    assert put(caller, "t", OTHER, "overwrite").status_code == 200
    assert caller.read("t").equals(OTHER)
