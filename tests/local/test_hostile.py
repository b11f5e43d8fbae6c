"""Truncated, foreign, hostile streams to a folder: S01, S03, S04, S15."""

from __future__ import annotations

import contextlib
import functools
import gzip
import io
import shutil
import struct
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.support.local import TABLE, UPSERT, message, stream
from tests.support.processes import reset_peak

END = b"\xff\xff\xff\xff\0\0\0\0"


# messages end at multiples of 8
@pytest.mark.parametrize("step", [8, pytest.param(1, marks=pytest.mark.long)])
def test_S01_a_stream_cut_at_any_byte_is_refused_and_leaves_nothing(caller, step):
    body = stream(TABLE, rows=2)
    for cut in {*range(0, len(body), step), *range(0, len(body), 101)}:
        answer = caller.create("t", body[:cut])
        assert (answer.status_code, caller.staged()) == (400, []), cut
        assert any(word in message(answer) for word in ("truncated", "empty")), cut
    assert caller.tables() == []
    assert caller.create("t", body).status_code == 200
    assert caller.read("t").equals(TABLE)


def written(write) -> bytes:
    sink = io.BytesIO()
    write(sink)
    return sink.getvalue()


SCHEMA = TABLE.schema.serialize().to_pybytes()
MISTAKEN = {
    "an Arrow file": (
        written(lambda sink: pa.ipc.new_file(sink, TABLE.schema).close()),
        "new_stream",
    ),
    "Parquet": (
        written(lambda sink: pyarrow.parquet.write_table(TABLE, sink)),
        "Parquet",
    ),
    "CSV": (b"n,text\n1,a\n", "CSV"),
    "gzip": (gzip.compress(stream(TABLE)), "gzip"),
    "nothing": (b"", "empty"),
    "a length of 4 GB": (b"\xff" * 8 + bytes(100), "2 GiB"),
    "no message behind the schema": (SCHEMA + b"rubbish", "truncated"),
    "garbage first": (b"\x00" + stream(TABLE), "not an Arrow IPC stream"),
    "a byte behind the end": (stream(TABLE) + b"\0", "follow the end"),
    "two streams": (stream(TABLE) * 2, "follow the end"),
    "no end": (stream(TABLE)[:-8], "end-of-stream"),
    "no schema": (stream(TABLE)[len(SCHEMA) :], "schema"),
}


@pytest.mark.parametrize(("body", "said"), MISTAKEN.values(), ids=MISTAKEN)
def test_S03_what_is_no_arrow_stream_is_refused_and_called_by_its_name(
    caller, body, said
):
    answer = caller.create("t", body)
    assert said in message(answer, 400)
    assert caller.tables() == []


def broken(array: pa.Array) -> bytes:
    return stream(
        pa.Table.from_batches([pa.RecordBatch.from_arrays([array], names=["broken"])])
    )


def rows_claimed(rows: int, columns: str = "n") -> bytes:
    """Make a stream of a batch that says it has more rows than are sent."""
    body = stream(pa.table({name: pa.nulls(77_777) for name in columns}))
    assert body.count(struct.pack("<q", 77_777)) >= 1
    return body.replace(struct.pack("<q", 77_777), struct.pack("<q", rows))


def offsets(*values: int, data: bytes = b"abc") -> pa.Array:
    ends = pa.array(values, pa.int32()).buffers()[1]
    return pa.Array.from_buffers(
        pa.string(), len(values) - 1, [None, ends, pa.py_buffer(data)]
    )


def offsets_that_lead_out() -> bytes:
    good = struct.pack("<3i", 0, 1, 3)
    bad = struct.pack("<3i", 0, 2**30, 3)
    body = broken(offsets(0, 1, 3))
    assert body.count(good) == 1
    return body.replace(good, bad)


def without_rows(*types: pa.DataType) -> bytes:
    return stream(
        pa.table({f"c{i}": pa.nulls(0, arrow) for i, arrow in enumerate(types)})
    )


def struct_of(fields: int) -> pa.DataType:
    return pa.struct([(f"c{i}", pa.int8()) for i in range(fields)])


def nine_columns(column: pa.Array, compression: str = "zstd") -> bytes:
    table = pa.table({f"c{number}": column for number in range(9)})
    return stream(table, compression=compression)


HOSTILE = {
    "1.2 GB of zeros in zstd": lambda: nine_columns(pa.nulls(2**24, pa.int64())),
    "1.2 GB of zeros in LZ4": lambda: nine_columns(pa.nulls(2**24, pa.int64()), "lz4"),
    "1.2 GB of text in zstd": lambda: nine_columns(pa.array(["x" * 2**27])),
    "offsets that lead out": offsets_that_lead_out,
    "offsets that go back": lambda: broken(offsets(0, 3, 1)),
    "text that is no UTF-8": lambda: broken(offsets(0, 2, data=b"\xff\xfe")),
    "a category that is not there": lambda: broken(
        pa.DictionaryArray.from_arrays(
            pa.array([7], pa.int32()), pa.array(["a"]), safe=False
        )
    ),
    "a null column of 2**40 rows": lambda: rows_claimed(2**40),
    "a negative number of rows": lambda: rows_claimed(-5),
    "lists of 2**31 nulls": lambda: without_rows(pa.list_(pa.null(), 2**31 - 1)),
    "100 000 columns": lambda: without_rows(*[pa.int8()] * 100_000),
    "a struct of 30 000 fields": lambda: without_rows(struct_of(30_000)),
    "lists of fixed sizes of 2**40": lambda: without_rows(
        pa.list_(pa.list_(pa.int8(), 2**20), 2**20)
    ),
    "a depth of 70": lambda: without_rows(
        functools.reduce(lambda inner, _: pa.list_(inner), range(70), pa.int8())
    ),
}


@pytest.fixture
def bounded(elsewhere, other):
    """A context manager in which the service lives within a limit of memory."""
    assert other.create("warm", TABLE).status_code == 200

    @contextlib.contextmanager
    def at_most(megabytes: int):
        reset_peak(elsewhere.pid)
        before = elsewhere.megabytes("VmHWM")
        yield
        assert elsewhere.alive
        assert elsewhere.megabytes("VmHWM") - before < megabytes

    yield at_most
    assert other.tables() == ["warm"]


def test_S04_hostile_streams_are_refused_in_bounded_memory(other, bounded):
    for what, make in HOSTILE.items():
        with bounded(600):
            answer = other.create("t", make())
            assert answer.status_code in (400, 413), what
            assert message(answer), what


def long_category(rows: int) -> pa.Array:
    codes = pa.array([0] * rows, pa.int8())
    return pa.DictionaryArray.from_arrays(codes, ["x" * 2**20])


KEYS_THAT_GROW = {
    "one value": (pa.table({"id": long_category(4000)}), "id", 400),
    "one value and a number": (
        pa.table({"id": long_category(4000), "n": range(4000)}),
        "id&on=n",
        200,
    ),
    "zeros": (pa.table({"id": pa.array(np.zeros(2**26 + 8, np.int64))}), "id", 413),
}


@pytest.mark.parametrize(
    ("rows", "keys", "status"), KEYS_THAT_GROW.values(), ids=KEYS_THAT_GROW
)
def test_keys_of_an_upsert_take_about_what_they_are_sent_as(
    other, bounded, rows, keys, status
):
    assert other.create("t", rows[:0]).status_code == 200
    path = f"t/merge_insert/?on={keys}&{UPSERT}"
    body = stream(rows, compression="zstd")
    with bounded(900):
        answer = other.post_rows(path, body)
    assert answer.status_code == status
    shutil.rmtree(other.root / "t.lance")


def test_S15_nulls_without_a_type_are_counted_over_all_batches_and_columns(
    other, bounded
):
    one = rows_claimed(2**24)
    head = len(pa.schema([("n", pa.null())]).serialize())
    many = [one[:head] + one[head:-8] * count + one[-8:] for count in (2, 20_000)]
    for body in (*many, rows_claimed(2**23 + 1, "no")):
        started = time.monotonic()
        answer = other.create("t", body)
        assert "'n'" in message(answer, 413)
        assert time.monotonic() - started < 8


def test_S15_every_kind_of_request_has_a_cap(other, bounded):
    columns = [{"path": "n", "rename": "m"}] * 700_000
    assert other.alter("warm", *columns).status_code == 413


LONG_TYPES = {
    "a zone": pa.timestamp("us", "Z" * 80_000),
    "a field": pa.struct([("f" * 80_000, pa.int64())]),
    "many fields": pa.struct([(f"f{number}", pa.int64()) for number in range(9_000)]),
}


@pytest.mark.parametrize("arrow", LONG_TYPES.values(), ids=LONG_TYPES)
def test_a_long_type_is_shortened_in_messages(caller, arrow):
    table = pa.table({"a": [1]})
    rows = pa.table({"a": pa.nulls(1, arrow)})
    caller.create("t", table)
    answer = caller.post_rows("t/insert/", rows)
    assert answer.status_code == 400
    assert "but int64 in the table" in message(answer)
    assert len(message(answer)) < 400


def test_an_empty_list_with_offsets_of_its_own_does_not_end_the_service(caller):
    lists = pa.ListArray.from_arrays
    maps = pa.array([[("a", 1)], [("b", 2)]], pa.map_(pa.string(), pa.int64()))
    inner = lists([0, 2, 2], maps).slice(2, 0)
    table = pa.table({"c": lists([0, 0], inner)})
    assert caller.create("t", table).status_code in (200, 400)
    assert caller.create("fine", pa.table({"n": [1]})).status_code == 200


LARGE = 105 * 2**20
TOO_LARGE = {
    "text": lambda: pa.array(["", "x" * LARGE]),
    "large text": lambda: pa.array(["", "x" * LARGE], pa.large_string()),
    "bytes": lambda: pa.array([b"", bytes(LARGE)]),
    "a list": lambda: pa.array([[], np.zeros(LARGE, np.int8)]),
    "texts of a list": lambda: pa.array([[], ["x" * (LARGE // 4)] * 4]),
    "a struct": lambda: pa.array([{"s": ""}, {"s": "x" * LARGE}]),
}


@pytest.mark.parametrize("make", TOO_LARGE.values(), ids=TOO_LARGE)
def test_a_cell_above_a_hundred_megabytes_is_refused_by_column_and_row(caller, make):
    table = pa.table({"n": [1, 2], "large": make()})
    answer = caller.create("t", stream(table, compression="zstd"))
    assert answer.status_code == 413
    assert message(answer).startswith("column 'large', row 1: a value takes more than")
    assert caller.tables() == []


def test_a_category_above_a_hundred_megabytes_is_refused(caller):
    table = pa.table({"k": TOO_LARGE["text"]().dictionary_encode()})
    answer = caller.create("t", stream(table, compression="zstd"))
    assert answer.status_code == 413
    assert message(answer).startswith("column 'k': a value takes more than")


def test_cells_of_a_hundred_megabytes_and_more_rows_than_that_are_stored(caller):
    table = pa.table({"s": ["x" * 10**8, "y"], "t": ["", "x" * 10**8]})
    assert caller.create("t", stream(table, compression="zstd")).status_code == 200
    assert caller.read("t").equals(table)
