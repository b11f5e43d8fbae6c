"""Tables read back, counted and dropped: whole and equal, or an error."""

from __future__ import annotations

import gc
import io
import re
import struct
import threading
from decimal import Decimal

import arro3.io
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames.errors import (
    BadRequest,
    OutcomeUnknown,
    RemoteError,
    ResponseError,
    ServerError,
    TableExistsError,
    TransportError,
    UnsupportedTypeError,
)
from tests.support.faults import connected, in_bounds
from tests.support.local import ARROW, stream
from tests.support.servers import Server

ROWS = pa.table(
    {
        "n": pa.array([1, None, 3], pa.int64()),
        "s": pa.array(["a", None, "c"], pa.large_string()),
        "x": pa.array([0.5, -0.0, None]),
        "ok": pa.array([True, None, False]),
        "tags": pa.array([[1, None], [], None], pa.list_(pa.int32())),
        "at": pa.array([0, None, 2**62], pa.timestamp("ns", "UTC")),
        "k": pa.array(["a", "b", None]).cast(pa.large_string()).dictionary_encode(),
    }
)


@pytest.fixture
def table(tmp_path):
    with rt.connect(tmp_path / "tables", default=False) as client:
        yield client.create_table("t", ROWS)


def test_categories_keep_their_order_however_many_batches_were_sent(tmp_path):
    kinds = pd.CategoricalDtype(["a", "b"])
    frame = pd.DataFrame({"kind": pd.Series(["b", "a", None] * 2000, dtype=kinds)})
    with rt.connect(tmp_path, default=False) as client:
        found = client.create_table("t", [frame, frame]).to_pandas()
    pd.testing.assert_frame_equal(found, pd.concat([frame, frame], ignore_index=True))


def test_rows_come_back_as_they_were_sent(table):
    expected = pl.from_arrow(ROWS)
    assert table.to_arrow().equals(ROWS)
    assert pa.table(table).equals(ROWS)
    assert pl.DataFrame(table).equals(expected, null_equal=True)
    assert table.to_polars().equals(expected, null_equal=True)
    frame = table.to_pandas()
    found = list(map(str, frame.dtypes.drop(["s", "tags"])))
    assert found == ["Int64", "float64", "boolean", "datetime64[ns, UTC]", "category"]
    assert str(frame["s"].dtype) in ("str", "object")
    assert frame["n"].tolist() == [1, pd.NA, 3]
    assert frame["tags"].tolist()[0] == [1, None]
    assert table.client.create_table("again", frame).to_arrow().equals(ROWS)
    # the table itself is copied without being held
    assert table.client.create_table("copy", table).to_arrow().equals(ROWS)


def test_a_nan_of_polars_comes_back_as_one(table):
    frame = pl.DataFrame({"x": [float("nan"), None, 1.0]})
    found = rt.to_table(frame, "nan", client=table.client)
    assert found.to_polars().equals(frame, null_equal=True)
    assert found.to_pandas()["x"].isna().tolist() == [True, True, False]


IDS = pa.array([bytes(16), None], pa.uuid())
ENDS = pa.array([0, None, 2], pa.int32())
MAPS = pa.map_(pa.string(), pa.int64())
STRUCTS = pa.StructArray.from_arrays([IDS], ["a"], mask=IDS.is_null())
READ_AS = {  # columns whose second row is null, and the first as Polars has it
    "UUIDs": (IDS, bytes(16)),
    "JSON": (pa.array(["[1]", None], pa.json_()), "[1]"),
    "UUIDs in structs": (STRUCTS, {"a": bytes(16)}),
    "UUIDs in lists": (pa.ListArray.from_arrays(ENDS, IDS), [bytes(16), None]),
    "lists of maps": (pa.array([[None], None], pa.list_(MAPS)), [None]),
}


@pytest.mark.parametrize(("column", "value"), READ_AS.values(), ids=READ_AS)
def test_polars_reads_what_is_stored_in_other_types_than_its_own(table, column, value):
    found = table.client.create_table("kinds", pa.table({"c": column}))
    assert found.to_polars()["c"].to_list() == [value, None]
    assert found.scan().collect()["c"].to_list() == [value, None]


def test_a_null_among_maps_is_no_empty_map_in_polars(table):
    maps = pa.array([[("a", 1)], None, []], MAPS)
    data = pa.table({"m": maps, "s": pa.StructArray.from_arrays([maps], ["m"])})
    found = table.client.create_table("maps", data).to_polars()
    for column in (found["m"], found["s"].struct.field("m")):
        assert column.is_null().to_list() == [False, True, False]
        assert len(column[2]) == 0


SECONDS = [0, 10**10, None, 2**60]
MOMENTS = pa.array(SECONDS, pa.timestamp("s", "UTC"))
SPANS = pa.array(SECONDS, pa.duration("s"))
OFFSET = pa.array(SECONDS, pa.timestamp("us", "+05:30"))
WIDE = pa.array([Decimal(1)], pa.decimal256(50, 0))
CANNOT = "'x': Polars cannot hold"
FOR_POLARS = {  # columns, the rows that Polars holds, and what is said of the others
    "moments in seconds": (MOMENTS, 3, f"{CANNOT} .*row 3: "),
    "durations in seconds": (SPANS, 3, f"{CANNOT} .*row 3: "),
    "a zone without a name": (OFFSET, 0, f"{CANNOT} .*=.05:30"),
    "decimals of 256 bits": (WIDE, 0, f"{CANNOT} .*to_arrow"),
}


@pytest.mark.parametrize(
    ("column", "held", "said"), FOR_POLARS.values(), ids=FOR_POLARS
)
def test_what_polars_cannot_hold_is_refused_by_column_where_it_would_wrap_or_panic(
    table, column, held, said
):
    rows = pa.table({"x": column, "n": range(len(column))})
    found = table.client.create_table("odd", rows)
    with pytest.raises(UnsupportedTypeError, match=said):
        found.to_polars()
    assert found.to_polars(columns=["n"])["n"].to_list() == [*range(len(column))]
    if held:
        got = pa.table(found.to_polars(limit=held))["x"].cast(column.type).to_pylist()
        assert got == column[:held].to_pylist()


def test_all_columns_that_polars_cannot_hold_are_named_at_once(
    table,
):
    structs = pa.StructArray.from_arrays([MOMENTS], ["x"])
    odd = {"moments": MOMENTS, "spans": SPANS, "offset": OFFSET, "structs": structs}
    found = table.client.create_table("odd", pa.table(odd))
    words = r"^4 columns cannot be read:\n"
    with pytest.raises(UnsupportedTypeError, match=words) as raised:
        found.to_polars()
    assert raised.value.columns == (*odd,)
    cure = "leave it out with columns=[…], or use to_arrow()"
    assert str(raised.value).count(cure) == 4
    assert not re.search("sent|correct the value", str(raised.value))


EXTENSION = {"ARROW:extension:name": "POLARS_EXTENSION_TYPE", "unit": "kg"}
MARKED = pa.field("item", pa.int64(), metadata=EXTENSION)
MARKED_SCHEMA = pa.schema(
    [
        pa.field("n", pa.int64(), metadata=EXTENSION),
        pa.field("l", pa.list_(MARKED), metadata=EXTENSION),
        pa.field("s", pa.struct([MARKED.with_name("x")])),
        pa.field("m", pa.map_(pa.string(), MARKED.with_name("value"))),
        pa.field("id", pa.uuid(), metadata={"unit": "kg"}),
    ],
    {"pandas": "{}"},
)
MARKED_ROW = {"n": 1, "l": [1], "s": {"x": 1}, "m": [("k", 1)], "id": b"0" * 16}
PLAIN_SCHEMA = pa.schema(
    {
        "n": pa.int64(),
        "l": pa.list_(pa.int64()),
        "s": pa.struct({"x": pa.int64()}),
        "m": pa.map_(pa.string(), pa.int64()),
        "id": pa.uuid(),
    }
)


def test_no_metadata_of_a_server_is_handed_on(server):
    plain = pa.Table.from_pylist([MARKED_ROW], PLAIN_SCHEMA)
    rows = pa.Table.from_arrays(plain.columns, schema=MARKED_SCHEMA)
    server.answering(*[(200, stream(rows), {"Content-Type": ARROW})] * 3)
    with connected(server, dialect="lancedb") as client:
        table = client.table("t")
        found = table.to_arrow()
        assert found.schema.equals(PLAIN_SCHEMA, check_metadata=True)
        assert found.to_pylist() == rows.to_pylist()
        assert pa.table(table).schema.equals(PLAIN_SCHEMA, check_metadata=True)
        assert table.to_polars()["l"].to_list() == [[1]]


def test_what_pandas_reads_can_be_written_to(tmp_path):
    columns = {
        "i": pa.array([1, 2]),
        "u": pa.array([1, 2], pa.uint8()),
        "x": pa.array([0.5, 1.5]),
        "h": pa.array([0.5, 1.5], pa.float16()),
        "ok": pa.array([True, False]),
        "at": pa.array([1, 2], pa.timestamp("us")),
        "zoned": pa.array([1, 2], pa.timestamp("ns", "Asia/Tokyo")),
        "span": pa.array([1, 2], pa.duration("ns")),
        "s": pa.array(["a", "b"]),
        "k": pa.array(["a", "b"]).dictionary_encode(),
        "day": pa.array([1, 2], pa.date32()),
        "null": pa.array([1, None]),
    }
    with rt.connect(tmp_path / "tables", default=False) as client:
        frame = client.create_table("t", pa.table(columns)).to_pandas()
    for name in columns:
        value = frame.loc[1, name]
        frame.loc[0, name] = value
        assert frame[name].iloc[0] is value or str(frame[name].iloc[0]) == str(value)


def test_one_column_is_read_and_dropped_by_its_name(table):
    assert table.to_arrow(columns="n").column_names == ["n"]
    assert table.to_polars(columns="n").columns == ["n"]
    assert list(table.to_pandas(columns="n")) == ["n"]
    frame = table.to_arrow().drop_columns("k")
    rt.alter_table(frame, "t", drop_columns="k", client=table.client)
    assert "k" not in table.client.table("t").columns


def test_some_columns_and_rows_are_read(table):
    found = table.to_arrow(columns=["s", "n"], where=pl.col("n") > 1)
    assert found.to_pylist() == [{"s": "c", "n": 3}]
    assert table.to_pandas(limit=2).shape == (2, 7)
    assert table.to_polars(columns=["n"], limit=0).schema == {"n": pl.Int64}
    assert table.to_arrow(where=pl.col("s") == "x;y").num_rows == 0
    assert table.count() == 3
    assert table.count(pl.col("n").is_null()) == 1


def test_no_rows_have_the_columns_of_today(tmp_path):
    with rt.connect(tmp_path, default=False) as client:
        client.create_table("t", pl.DataFrame({"a": [1]}))
        table = client.table("t")
        assert table.columns == ["a"]
        client.create_table("t", pl.DataFrame({"b": [1]}), if_exists="replace")
        assert table.head(0).columns == ["b"]


UNKNOWN = {  # columns that are asked for, and the names that are offered
    "tag": r"'tag'; did you mean 'tags'\?$",
    "At": r"'At'; did you mean 'at'\?$",
    "in.y": r"'in.y'; did you mean 'in.x', 'in'\?$",
    "nowhere": "'nowhere'; known: 'at', 'in', 'in.x', 'is', 'k', ",
}


@pytest.mark.parametrize("column", UNKNOWN)
@pytest.mark.parametrize("limit", [None, 0])
def test_a_column_that_a_table_does_not_have_is_named_with_those_that_are_meant(
    table, column, limit
):
    """A handle knows columns renamed since it was made."""
    nested = ROWS.append_column("in", [[{"x": 1}] * 3]).append_column("was", ROWS["n"])
    known = table.client.create_table("u", nested)
    table.client.table("u").rename({"was": "is"})
    words = f"^columns: table 'u' has no column {UNKNOWN[column]}"
    with pytest.raises(ValueError, match=words):
        known.to_arrow(columns=["n", column, "in.x"], limit=limit)
    found = known.to_arrow(columns=["is", "in.x"], limit=limit)
    assert found.column_names == ["is", "in.x"]


def test_a_query_that_is_refused_for_another_reason_says_that(server, table):
    with pytest.raises(ValueError, match="nowhere"):
        table.to_arrow(columns=["n"], where=pl.col("nowhere") > 1)
    # every request is refused, also the one for the description
    server.answering((400, {"error": "no such column"}))
    with pytest.raises(BadRequest, match="no such column"):
        reading(server).to_arrow(columns=["n"])
    found = [request.path.split("/")[4] for request in server.posts]
    assert found == ["query", "describe"]


CANNOT_BE_ASKED = [  # beside those in tests/messages.txt
    {"columns": []},
    *({"where": where} for where in ("", "n > 1) OR (x", '"n" > 1')),
    *({"limit": limit} for limit in (True, 1.0)),
]


@pytest.mark.parametrize("options", CANNOT_BE_ASKED, ids=str)
def test_what_cannot_be_asked_is_refused_before_anything_is_sent(server, options):
    with pytest.raises(ValueError, match=f"^{next(iter(options))}: "):
        reading(server).to_arrow(**options)
    assert server.requests == []


# What a service may do to an answer


def in_form(form: str, rows: pa.Table, each: int = 1) -> bytes:
    sink = io.BytesIO()
    if form == "file in Rust":
        batches = rows.to_batches(max_chunksize=each)
        arro3.io.write_ipc(
            pa.RecordBatchReader.from_batches(rows.schema, batches), sink
        )
        return sink.getvalue()
    make = pa.ipc.new_stream if form == "stream" else pa.ipc.new_file
    with make(sink, rows.schema) as writer:
        for batch in rows.to_batches(max_chunksize=each):
            writer.write_batch(batch)
    return sink.getvalue()


def framed(framing: str, body: bytes, cut: int | None = None) -> bytes:
    """Return an answer, of whose body only so many bytes come."""
    sent = body if cut is None else body[:cut]
    if framing == "length":
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + sent
    if framing == "close":
        return b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + sent
    chunks = b"".join(
        b"%x\r\n%b\r\n" % (len(sent[i : i + 50]), sent[i : i + 50])
        for i in range(0, len(sent), 50)
    )
    return (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        + chunks
        + b"0\r\n\r\n" * (cut is None)
    )


def reading(server: Server, **options):
    return connected(server, dialect="lancedb", **{"retries": 0, **options}).table("t")


def answering(server: Server, *answers: bytes) -> None:
    """Give one answer, byte by byte as it is, on each connection."""
    left = iter(answers)

    def script(connection):
        connection.body(connection.head())
        connection.sock.sendall(next(left))

    server.script = script


FORMS = [
    ("stream", "length"),
    ("stream", "close"),
    ("file", "chunked"),
    ("file in Rust", "close"),
]


@pytest.mark.parametrize(("form", "framing"), FORMS)
def test_an_answer_that_is_cut_anywhere_is_an_error_and_no_shorter_table(
    server, form, framing
):
    body = in_form(form, ROWS)
    ends = range(0, len(body), 83)
    short = [framed(framing, body, end) for end in ends]
    answering(server, *short, framed(framing, body))
    table = reading(server)
    for _ in ends:
        with pytest.raises(RemoteError) as caught:
            table.to_arrow()
        assert caught.value.table == "t"
        assert caught.value.request_id
        assert "literal" not in str(caught.value)
    assert table.to_arrow().equals(ROWS)


def test_a_read_is_repeated_until_its_first_rows_have_come(server):
    body = in_form("stream", ROWS)
    refused = b"HTTP/1.1 500 x\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n"
    late = framed("chunked", body, len(body) - 9)
    answering(
        server, refused, framed("chunked", body, 20), framed("chunked", body), late
    )
    assert reading(server, retries=3).to_arrow().equals(ROWS)
    assert len(server.posts) == 3
    words = r"after \d rows .*read it again"
    with pytest.raises(TransportError, match=words):
        reading(server, retries=3).to_arrow()
    assert len(server.posts) == 4


def test_rows_may_take_longer_than_the_read_timeout_as_long_as_they_go_on_coming(
    server,
):
    body = framed("chunked", in_form("stream", ROWS))
    stopped = threading.Event()

    def script(connection):
        connection.body(connection.head())
        for i in range(0, len(body), 400):
            connection.sock.sendall(body[i : i + 400])
            stopped.wait(0.15)
        stopped.wait(30)

    server.script = script
    assert len(body) / 400 * 0.15 > 0.5
    assert reading(server, timeout=(5, 5, 0.5)).to_arrow().equals(ROWS)
    body = framed("length", in_form("stream", ROWS), 1500)
    with pytest.raises(TransportError, match=r"the response failed after .*"):
        reading(server, timeout=(5, 5, 0.5)).to_arrow()
    stopped.set()


@pytest.mark.parametrize("begun", [False, True], ids=["unread", "begun"])
def test_a_reader_that_is_let_go_hangs_up(server, begun):
    hung_up = threading.Event()
    body = framed("length", in_form("stream", ROWS), 1800)

    def script(connection):
        connection.body(connection.head())
        connection.sock.sendall(body)
        connection.sock.settimeout(20)
        if connection.sock.recv(1) == b"":
            hung_up.set()

    server.script = script
    reader = pa.RecordBatchReader.from_stream(reading(server))
    if begun:
        reader.read_next_batch()
    assert not hung_up.is_set()
    del reader
    gc.collect()
    assert hung_up.wait(20)


def test_a_drop_is_sent_once_and_its_outcome_may_be_open(server):
    def script(connection):
        request = connection.body(connection.head())
        if request.method == "GET":
            connection.answer(200, {"tables": []})

    server.script = script
    with pytest.raises(OutcomeUnknown, match="list the tables"):
        reading(server, retries=3).drop()
    assert [(post.path, post.body) for post in server.posts] == [
        ("/v1/table/t/drop/", b"")
    ]
    server.answering((500, {"error": "no"}))
    with pytest.raises(ServerError, match="list the tables"):
        reading(server, retries=3).drop()
    assert len(server.posts) == 2


def corrupt() -> bytes:
    """Return a stream of two lists, of which the first reaches beyond all values."""
    whole = in_form("stream", pa.table({"n": [[7] * 77, [8]], "s": [1, 2]}), each=2)
    before, _, after = whole.rpartition(struct.pack("<ii", 0, 77))
    return before + struct.pack("<ii", 0, 2**31 - 1) + after


def nine_columns(column: pa.Array) -> bytes:
    table = pa.table({f"c{number}": column for number in range(9)})
    return stream(table, compression="zstd")


def long_category() -> pa.Array:
    codes = pa.array([0], pa.int8())
    return pa.DictionaryArray.from_arrays(codes, ["x" * 2**27])


# what a server sends, and the memory that it may take: dictionaries come one by one
TOO_LARGE = {
    "zeros": (lambda: nine_columns(pa.nulls(2**24, pa.int64())), 128),
    "text": (lambda: nine_columns(pa.array(["x" * 2**27])), 128),
    "categories": (lambda: nine_columns(long_category()), 1200),
}


@pytest.mark.parametrize(("make", "mib"), TOO_LARGE.values(), ids=TOO_LARGE)
def test_rows_that_take_much_more_memory_than_bytes_are_refused_before_that(
    server, make, mib
):
    server.answering((200, make()))
    with (
        in_bounds(seconds=20, mib=mib),
        pytest.raises(ResponseError, match="GB once decompressed"),
    ):
        reading(server).to_arrow()


TWO = in_form("stream", ROWS.select(["n", "s"]))
SAME_NAMES = in_form("stream", pa.table([[1], [2]], ["n", "n"]))
MORE_BEHIND = in_form("stream", ROWS.select(["n", "s"])[:2]) + b"more"
NOT_THE_ROWS = {  # status, headers, body, what is told
    "a page": (200, {}, b"<html>log in</html>", "<html>lo"),
    "zeros": (200, {}, bytes(100), "not an Arrow stream"),
    "markers alone": (200, {}, b"\xff" * 100, ""),
    "Parquet": (200, {}, b"PAR1", "not an Arrow stream"),
    "the head of a file": (200, {}, b"ARROW1\0\0", ""),
    "zeros behind it": (200, {}, b"ARROW1" + bytes(4000), "not an Arrow stream"),
    "compressed": (200, {"Content-Encoding": "gzip"}, b"\x1f\x8b", "gzip"),
    "204": (204, {}, b"", "204"),
    "206": (206, {}, TWO, "206"),
    "more columns": (200, {}, in_form("stream", ROWS), "other columns"),
    "columns of one name": (200, {}, SAME_NAMES, "other columns"),
    "more rows": (200, {}, TWO, "2 rows"),
    "more behind the end": (200, {}, MORE_BEHIND, "end"),
    "a list beyond its values": (200, {}, corrupt(), ""),
}


@pytest.mark.parametrize(
    ("status", "headers", "body", "told"), NOT_THE_ROWS.values(), ids=NOT_THE_ROWS
)
def test_an_answer_without_just_the_rows_that_were_asked_for_is_an_error(
    server, status, headers, body, told
):
    server.answering((status, body, headers))
    with pytest.raises((ResponseError, TransportError), match=f"'t'.*{told}"):
        reading(server).to_arrow(columns=["n", "s"], limit=2)


@pytest.mark.parametrize("answer", [b"x", b'"3"', b"-1", b"true", b"1.5", b"{}"])
def test_a_count_that_is_no_number_is_an_error(server, answer):
    server.answering((200, answer))
    with pytest.raises(ResponseError, match="'t'"):
        reading(server).count()


def test_a_handle_is_read_again_whenever_it_is_sent(table, server):
    client = table.client
    with pytest.raises(TableExistsError) as refused:
        client.create_table("t", table)
    assert "exhausted" not in str(refused.value)
    for _ in range(2):
        client.create_table("t", table, if_exists="replace")
        assert table.to_arrow().equals(ROWS)
    server.answering((429, {}, {"Retry-After": "0"}), (200, {}))
    connected(server, retries=1, timeout=20).create_table("copy", table)
    first, second = (pa.ipc.open_stream(post.body).read_all() for post in server.posts)
    assert first.equals(second)
    assert first.equals(ROWS)
    with pytest.raises(ValueError, match="index: only for pandas frames"):
        client.create_table("u", table, index=True)


def views_of_one_text(rows: int, nbytes: int) -> pa.Array:
    text = b"x" * nbytes
    view = struct.pack("<i4sii", nbytes, text[:4], 0, 0)
    buffers = [None, pa.py_buffer(view * rows), pa.py_buffer(text)]
    return pa.Array.from_buffers(pa.string_view(), rows, buffers)


def test_views_that_share_a_text_are_read_unless_they_show_gigabytes(server):
    few = pa.table({"s": views_of_one_text(1000, 1000)})
    server.answering((200, stream(few)))
    assert reading(server).to_polars()["s"].to_list() == ["x" * 1000] * 1000
    many = pa.table({"s": views_of_one_text(2**18, 2**18)})
    server.answering((200, stream(many, compression="zstd")))
    with (
        in_bounds(seconds=5, mib=128),
        pytest.raises(TransportError, match=r"views of a batch show 68\.7 GB"),
    ):
        reading(server).to_arrow()
