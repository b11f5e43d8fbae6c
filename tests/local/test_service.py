from __future__ import annotations

import datetime as dt
import decimal
import http.client
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import lance
import pyarrow as pa
import pytest

from rt_frames.local import LocalService
from tests.support.local import ARROW, LIST_64, NUMBERS, Caller, Process, nested, stream

UTC = dt.UTC


def everything() -> pa.Table:
    point = pa.struct([("x", pa.int32()), ("y", pa.large_string())])
    columns = {
        "bool": (pa.bool_(), [True, None, False]),
        "uint64": (pa.uint64(), [2**64 - 1, None, 0]),
        "half": (pa.float16(), [0.5, None, -2.0]),
        "text": (pa.large_string(), ["é", None, ""]),
        "bytes": (pa.binary(), [b"\x00\xff", None, b""]),
        "fixed": (pa.binary(2), [b"ab", None, b"cd"]),
        "day": (pa.date32(), [dt.date(1600, 1, 1), None, dt.date(2030, 12, 31)]),
        "time": (pa.time64("us"), [dt.time(1, 2, 3, 4), None, dt.time(0)]),
        "at": (
            pa.timestamp("us", "UTC"),
            [dt.datetime(2020, 1, 2, 3, tzinfo=UTC), None, dt.datetime(1969, 1, 1, tzinfo=UTC)],
        ),
        "lasted": (pa.duration("ms"), [dt.timedelta(milliseconds=5), None, dt.timedelta(days=-1)]),
        "price": (pa.decimal128(38, 4), [decimal.Decimal("1.2345"), None, decimal.Decimal(-9)]),
        "huge": (pa.decimal256(70, 1), [decimal.Decimal(10) ** 60, None, decimal.Decimal("0.5")]),
        "list": (pa.large_list(pa.int8()), [[1, None], None, []]),
        "vector": (pa.list_(pa.float32(), 2), [[1.0, 2.0], None, [3.0, None]]),
        "point": (point, [{"x": 1, "y": "a"}, None, {"x": None, "y": None}]),
        "points": (pa.list_(point), [[{"x": 1, "y": "a"}, None], None, []]),
        "map": (pa.map_(pa.string(), pa.int64()), [[("k", 1)], None, []]),
    }
    table = pa.table({name: pa.array(values, arrow) for name, (arrow, values) in columns.items()})
    return table.append_column("kind", pa.array(["u", None, "v"]).dictionary_encode())


def test_a_created_table_is_listed_and_reads_back_equal_with_lance_and_with_lancedb(caller):
    import lancedb

    table = everything()
    answer = caller.create("all", table)
    assert (answer.status_code, answer.json()) == (200, {"version": 1})
    assert caller.tables() == ["all"]
    assert caller.read("all").equals(table)
    assert lancedb.connect(str(caller.root)).open_table("all").to_arrow().equals(table)
    assert caller.staged() == []


def test_tables_are_listed_sorted_and_other_folders_are_not(caller):
    for name in ("b", "a.1", "_c", "a"):
        assert caller.create(name, NUMBERS).status_code == 200
    (caller.root / "empty.lance").mkdir()
    (caller.root / "notes").mkdir()
    assert caller.tables() == ["_c", "a", "a.1", "b"]


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("chunk", [None, 7, 1000, 2**20], ids="chunks of {}".format)
def test_every_compression_arrives_whole_with_a_length_and_in_chunks(caller, compression, chunk):
    table = pa.table({"n": range(3000), "text": [str(i) * (i % 9) for i in range(3000)]})
    body = stream(table, compression=compression, rows=700)
    sent = body if chunk is None else (body[i : i + chunk] for i in range(0, len(body), chunk))
    assert caller.create("t", sent).status_code == 200
    assert caller.read("t").equals(table)


def test_batches_with_dictionaries_of_their_own_keep_their_values(caller):
    values = [["a", "b", None], ["c", "a", "c"], ["d"]]
    batches = [pa.record_batch({"k": pa.array(part).dictionary_encode()}) for part in values]
    assert caller.create("t", stream(pa.Table.from_batches(batches))).status_code == 200
    assert caller.read("t")["k"].to_pylist() == ["a", "b", None, "c", "a", "c", "d"]


def test_a_table_without_rows_is_a_table(caller):
    assert caller.create("none", everything().slice(0, 0)).status_code == 200
    assert caller.read("none").equals(everything().slice(0, 0))


@pytest.mark.parametrize("columns", [1000, pytest.param(10_000, marks=pytest.mark.long)])
def test_a_column_of_nulls_and_ten_thousand_columns_are_stored(caller, columns):
    wide = pa.table({f"c{i}": [i] for i in range(columns - 1)} | {"nothing": pa.nulls(1)})
    assert caller.create("wide", wide).status_code == 200
    assert caller.read("wide").equals(wide)


def test_one_connection_carries_many_requests(caller):
    url = urlsplit(caller.url)
    connection = http.client.HTTPConnection(url.hostname, url.port)
    headers = {"x-api-key": caller.key, "content-type": ARROW, "x-request-id": "r-1"}
    seen = set()
    for name in ("a", "b", "c"):
        connection.request("POST", f"/v1/tables/{name}", stream(NUMBERS), headers)
        answer = connection.getresponse()
        assert (answer.status, answer.read(), answer.headers["x-request-id"]) == (
            200,
            b'{"version": 1}',
            "r-1",
        )
        seen.add(connection.sock.getsockname())
    connection.close()
    assert len(seen) == 1
    assert caller.tables() == ["a", "b", "c"]


def test_a_table_much_larger_than_the_memory_it_may_take_goes_through(tmp_path):
    batch = pa.record_batch({f"c{i}": pa.array(range(i, i + 250_000)) for i in range(8)})
    head = stream(pa.table(batch).slice(0, 0))[:-8]
    body = stream(pa.table(batch))
    one = body[len(head) : -8]
    with Process(tmp_path) as service:
        assert service.caller.create("warm", body).status_code == 200
        service.reset_peak()
        before = service.peak_megabytes()
        parts = iter([head, *[one] * 50, body[-8:]])
        assert service.caller.create("big", parts).status_code == 200
        assert 50 * len(one) > 750 * 2**20
        assert service.peak_megabytes() - before < 300

    big = lance.dataset(str(tmp_path / "big.lance"))
    assert big.count_rows() == 50 * batch.num_rows
    assert big.take([0, 12_499_999], columns=["c7"])["c7"].to_pylist() == [7, 250_006]


CHANGES = {
    "rename": ([{"path": "n", "rename": "new"}], {"new": ("int64", [1, 2])}),
    "cast": ([{"path": "n", "data_type": {"type": "int8"}}], {"n": ("int8", [1, 2])}),
    "both": ([{"path": "n", "rename": "k", "data_type": {"type": "uint32"}}], {"k": ("uint32", [1, 2])}),
    "swap": (
        [{"path": "n", "rename": "m"}, {"path": "m", "rename": "n"}],
        {"m": ("int64", [1, 2]), "n": ("int64", [3, 4])},
    ),
    "chain": (
        [{"path": "n", "rename": "m"}, {"path": "m", "rename": "o"}],
        {"m": ("int64", [1, 2]), "o": ("int64", [3, 4])},
    ),
    "in a struct": (
        [{"path": "s.x", "data_type": {"type": "int64"}}, {"path": "s.y", "rename": "z"}],
        {"s": ("struct<x: int64, z: string>", [{"x": 1, "z": "p"}, {"x": 2, "z": "q"}])},
    ),
    "in a list": (
        [{"path": "l.item.x", "data_type": {"type": "int64"}}],
        {"l": ("list<item: struct<x: int64, y: string>>", [[{"x": 5, "y": "r"}], []])},
    ),
    "a list": ([{"path": "v", "data_type": LIST_64}], {"v": ("large_list<item: int64>", [[1], [2, 3]])}),
    "text": ([{"path": "t", "data_type": {"type": "large_string"}}], {"t": ("large_string", ["u", "v"])}),
    "category": (
        [{"path": "t", "data_type": {"type": "dict:string:int32:false"}}],
        {"t": ("dictionary<values=string, indices=int32, ordered=0>", ["u", "v"])},
    ),
    "timestamp to date": (
        [{"path": "at", "data_type": {"type": "date32:day"}}],
        {"at": ("date32[day]", [dt.date(2020, 1, 2), None])},
    ),
    "unset fields": (
        [{"path": "n", "rename": None, "data_type": {"type": "int32"}, "nullable": None}],
        {"n": ("int32", [1, 2])},
    ),
}


@pytest.mark.parametrize(("alterations", "expected"), CHANGES.values(), ids=CHANGES)
def test_alterations_change_what_they_say_and_no_value(caller, alterations, expected):
    before = nested()
    caller.create("t", before)
    answer = caller.alter("t", *alterations)
    assert (answer.status_code, answer.json()) == (200, {"version": 2})
    after = caller.read("t")
    found = {name: (str(after.schema.field(name).type), after[name].to_pylist()) for name in expected}
    assert found == expected
    for name in set(after.column_names) - set(expected):
        assert after[name].equals(before[name])
    assert len(after.column_names) == len(before.column_names)


def test_nullability_changes_both_ways(caller):
    caller.create("t", nested())
    assert caller.alter("t", {"path": "n", "nullable": False}, {"path": "t", "rename": "u"}).json() == {"version": 2}
    assert not caller.read("t").schema.field("n").nullable
    assert caller.alter("t", {"path": "n", "nullable": True}).json() == {"version": 3}
    assert caller.read("t").schema.field("n").nullable


def test_a_service_starts_and_stops_as_often_as_it_is_told(tmp_path):
    service = LocalService(tmp_path / "made" / "here", api_key="k-1")
    with pytest.raises(RuntimeError, match="not running"):
        _ = service.url
    service.close()
    for _ in range(2):
        with service, service as same:
            assert same.start() is service
            caller = Caller(service.root, service.url, "k-1")
            assert caller.tables() == []
            caller.close()
        assert "k-1" not in repr(service)
        service.close()
    assert service.root.is_dir()


def test_every_service_has_a_random_key_and_a_bad_one_is_refused_unseen(tmp_path):
    keys = {LocalService(tmp_path).api_key for _ in range(20)}
    assert len(keys) == 20
    for bad in ("", "a b", "k\n", "é"):
        with pytest.raises(ValueError, match="api_key: expected") as caught:
            LocalService(tmp_path, api_key=bad)
        assert not bad or bad not in str(caught.value)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the server forgets a socket then
def test_a_taken_port_is_an_error_and_leaves_the_service_stopped(tmp_path, caller):
    other = LocalService(tmp_path / "other", port=urlsplit(caller.url).port)
    with pytest.raises(OSError, match=r"(?i)address"):
        other.start()
    assert "not running" in repr(other)


def test_a_forgotten_service_does_not_keep_the_interpreter_from_ending(tmp_path):
    script = f"""
import lance
import pyarrow as pa
from rt_frames.local import LocalService
from tests.support.local import Caller
service = LocalService({str(tmp_path)!r}).start()
LocalService({str(tmp_path)!r}).start()
caller = Caller(service.root, service.url, service.api_key)
assert caller.create("t", pa.table({{"a": [1]}})).status_code == 200
print("end")
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=Path(__file__).parents[2], timeout=20, capture_output=True, check=False
    )  # fmt: skip
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"end\n", b"")


def test_two_processes_serve_one_folder(tmp_path, caller):
    upload = threading.Event()

    def slowly():
        body = stream(NUMBERS)
        yield body[:100]
        assert upload.wait(20)
        yield body[100:]

    answers = []
    thread = threading.Thread(target=lambda: answers.append(caller.create("mine", slowly())))
    thread.start()
    with Process(caller.root) as other:
        assert other.caller.create("theirs", NUMBERS).status_code == 200
        upload.set()
        thread.join()
        assert answers[0].status_code == 200
        assert caller.tables() == other.caller.tables() == ["mine", "theirs"]
        assert caller.alter("theirs", {"path": "a", "rename": "z"}).json() == {"version": 2}
        assert other.caller.alter("theirs", {"path": "z", "rename": "y"}).json() == {"version": 3}
    assert caller.read("mine").equals(NUMBERS)
    assert caller.read("theirs").column_names == ["y", "b", "c"]


def test_ten_thousand_columns_are_renamed_in_one_request(caller):
    names = [f"c{i}" for i in range(10_000)]
    lance.write_dataset(pa.table({name: [1] for name in names}), str(caller.root / "wide.lance"))
    started = time.monotonic()
    answer = caller.alter("wide", *({"path": name, "rename": f"{name}_new"} for name in names))
    assert (answer.status_code, answer.json()) == (200, {"version": 2})
    assert time.monotonic() - started < 15  # of which the engine takes most; a walk over all names a path took minutes
    assert lance.dataset(str(caller.root / "wide.lance")).schema.names == [f"{name}_new" for name in names]
    twice = caller.alter("wide", {"path": "c0_new", "rename": "c1_new"}, {"path": "c2_new", "rename": "c1_new"})
    assert twice.status_code == 400


def test_early_refusals_and_clients_that_vanish_leave_no_warning(tmp_path):
    script = f"""
import gc, socket, struct
from rt_frames.local import LocalService
from tests.support.local import TABLE, Caller, answered, stream
with LocalService({str(tmp_path)!r}) as service:
    caller = Caller(service.root, service.url, service.api_key)
    body = stream(TABLE)
    for path in ("/v1/tables/..", "/v1/tables/%252e", "/x", "/v1/tables/t"):
        with caller.connect() as connection:
            connection.sendall(caller.head(path, f"Content-Length: {{len(body)}}", "Connection: close") + body)
            answered(connection)
        for linger in (0, 1):  # seconds; with 0 the service's answer meets a connection that was reset
            with caller.connect() as connection:
                connection.sendall(caller.head(path, f"Content-Length: {{2**20}}") + bytes(1000))
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, linger))
    for host in ("localhost", "evil"):
        caller.send("GET", "/v1/tables", host=host)
    caller.close()
gc.collect()
print("end")
"""
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=Path(__file__).parents[2], timeout=60, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "end\n", "")
