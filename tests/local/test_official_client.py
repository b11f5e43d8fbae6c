"""The protocol's official client at the development server.

What either client writes, the other reads.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import warnings

import lance
import numpy as np
import pyarrow as pa
import pytest

import rt_frames as rt
from tests.local.test_service import COLUMNS, TOLD
from tests.support.compare import stored
from tests.support.faults import connected
from tests.support.local import TABLE, message
from tests.support.servers import KEY

VECTOR = pa.list_(pa.float32(), 2)
ALL_TYPES = pa.table({"vector": pa.array([[1, 2], [3, 4], [5, 6]], VECTOR)})
for name, (arrow, values) in COLUMNS.items():
    # it knows no maps, and no vectors that lack a number
    if name not in ("map", "vector"):
        ALL_TYPES = ALL_TYPES.append_column(name, pa.array(values, arrow))


@pytest.fixture(scope="module")
def lancedb():
    """The client, imported late.

    That takes seconds, and each process of the tests imports each of their files.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import lancedb
    return lancedb


@pytest.fixture
def db(lancedb, other):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield lancedb.connect("db://x", api_key=other.key, host_override=other.url)


def test_what_either_client_writes_is_listed_stored_and_read_value_by_value(
    lancedb, db, other
):
    table = ALL_TYPES.append_column("nothing", pa.nulls(3))
    theirs = db.create_table("theirs", table)
    with rt.connect(other.url, api_key=other.key, dialect="lancedb") as client:
        client.create_table("ours", ALL_TYPES)
        assert client.list_tables() == ["ours", "theirs"]
        assert list(db.table_names()) == ["ours", "theirs"]
        assert db.list_tables().tables == ["ours", "theirs"]
        kept = stored(other, "ours")
        assert client.table("ours").schema.equals(kept.schema)
    assert stored(other, "theirs").equals(table)
    assert theirs.schema.equals(table.schema)
    assert theirs.search().to_arrow().equals(table)
    opened = db.open_table("ours")
    assert opened.schema.equals(kept.schema)
    assert kept.to_pydict() == ALL_TYPES.to_pydict()
    assert opened.search().to_arrow().equals(kept)
    in_folder = lancedb.connect(str(other.root)).open_table("ours")
    assert in_folder.to_arrow().equals(kept)


def test_the_official_client_is_told_metadata_and_extension_types_and_adds_rows_of_them(
    db, caller
):
    fields = []
    columns = []
    for number, (field, _, _) in enumerate(TOLD.values()):
        values = pa.nulls(2, field.type)
        if not field.nullable:
            values = pa.array([1, 2], field.type)
        # it knows no maps
        if not pa.types.is_map(field.type):
            fields.append(field.with_name(f"c{number}"))
            columns.append(values)
    table = pa.table(columns, pa.schema(fields, {"a": "b"}))
    caller.create("t", table)
    opened = db.open_table("t")
    found = opened.search().to_arrow()
    assert opened.schema.equals(table.schema, check_metadata=True)
    assert found.schema.equals(table.schema, check_metadata=True)
    # those inside others it sends as what they are stored as
    flat = [field.name for field in fields if not pa.types.is_nested(field.type)]
    caller.create("flat", table.select(flat))
    opened = db.open_table("flat")
    opened.add(table.select(flat))
    assert opened.count_rows() == 4


def test_the_official_client_creates_replaces_and_drops(db, caller):
    db.create_table("t", TABLE)
    with pytest.raises(ValueError, match="Table 't' already exists"):
        db.create_table("t", TABLE)
    assert db.create_table("t", TABLE[:1], exist_ok=True).count_rows() == 3
    old = lance.dataset(str(caller.root / "t.lance"))
    replaced = db.create_table("t", pa.table({"x": [1.5]}), mode="overwrite")
    assert replaced.head().to_pylist() == [{"x": 1.5}]
    assert old.to_table().equals(TABLE)
    empty = db.create_table("empty", schema=TABLE.schema)
    assert (empty.count_rows(), empty.schema) == (0, TABLE.schema)
    assert empty.search().to_arrow().equals(TABLE[:0])
    db.drop_table("t")
    assert caller.tables() == ["empty"]
    assert not (caller.root / "t.lance").exists()
    with pytest.raises(ValueError, match="not found"):
        db.open_table("t")
    with pytest.raises(Exception, match="table 't' does not exist"):
        db.drop_table("t")


@pytest.fixture
def numbers(db):
    """A table of the official client."""
    texts = [f"r{number % 7}" for number in range(5000)]
    return db.create_table("t", pa.table({"n": range(5000), "s": texts}))


def test_the_official_client_counts_and_filters(numbers):
    assert numbers.count_rows() == 5000
    assert numbers.count_rows("s = 'r3'") == 714
    query = numbers.search().where("n >= 10 AND s IN ('r3', 'r4')")
    found = query.select(["n"]).limit(2).offset(1).to_arrow()
    assert found.to_pylist() == [{"n": 11}, {"n": 17}]
    got = numbers.search().where("n > 4998").with_row_id(True).to_list()
    assert got == [{"n": 4999, "s": "r1", "_rowid": 4999}]


def test_the_official_client_alters_and_adds(numbers, caller):
    altered = {"path": "n", "rename": "m", "data_type": pa.int32(), "nullable": True}
    assert numbers.alter_columns(altered, {"path": "s", "rename": "t"}).version == 2
    more = pa.table({"m": pa.array([7, None], pa.int32()), "t": ["x", None]})
    numbers.add(more)
    got = numbers.search().where("m = 7 OR m IS NULL").to_arrow().to_pydict()
    assert got == {"m": [7, 7, None], "t": ["r0", "x", None]}
    with pytest.raises(Exception, match="'x' does not exist"):
        numbers.add(more.append_column("x", [range(2)]))
    old = lance.dataset(str(caller.root / "t.lance"))
    numbers.add(more, mode="overwrite")
    assert numbers.count_rows() == 2
    assert old.count_rows() == 5002


def test_the_official_client_looks_at_an_old_version(numbers):
    numbers.delete("n < 10")
    numbers.checkout(1)
    assert numbers.head(2).to_pydict() == {"n": [0, 1], "s": ["r0", "r1"]}
    with pytest.raises(ValueError, match="not found"):
        numbers.checkout(9)


def test_the_official_client_merges_by_these_two_rules_and_by_no_others(db, caller):
    table = db.create_table("t", pa.table({"id": [1, 2], "a": ["x", "y"]}))
    rows = pa.table({"id": [2, 3], "a": ["Y", "z"]})
    upsert = table.merge_insert("id").when_matched_update_all()
    upsert = upsert.when_not_matched_insert_all()
    done = upsert.execute(rows)
    assert (done.version, done.num_updated_rows, done.num_inserted_rows) == (2, 1, 1)
    found = table.search().to_arrow().sort_by("id").to_pydict()
    assert found == {"id": [1, 2, 3], "a": ["x", "Y", "z"]}
    with pytest.raises(Exception, match=r"400 .*rows 0 and 2 have the same key"):
        upsert.execute(pa.concat_tables([rows, rows]))
    for others in (
        table.merge_insert("id").when_not_matched_insert_all(),
        table.merge_insert("id").when_matched_update_all(),
        table.merge_insert("id").when_matched_update_all(where="target.id > 1"),
        upsert.when_not_matched_by_source_delete(),
    ):
        with pytest.raises(Exception, match=r"501 .*(does not support|merges only)"):
            others.execute(rows)
    assert caller.version("t") == 2


def test_the_official_client_deletes_adds_and_drops_columns_and_restores(db, caller):
    table = db.create_table("t", TABLE)
    assert table.delete("n = 1").version == 2
    assert table.count_rows() == 2
    new = pa.schema([pa.field("new", pa.decimal128(9, 2)), pa.field("u", pa.uuid())])
    assert table.add_columns(new).version == 3
    assert table.schema.names == ["n", "text", "k", "new", "u"]
    assert table.search().to_arrow()["new"].null_count == 2
    assert table.drop_columns(["text", "u"]).version == 4
    assert table.schema.names == ["n", "k", "new"]
    with pytest.raises(Exception, match=r"400 .*unknown columns: 'u'"):
        table.drop_columns(["u"])
    with pytest.raises(Exception, match=r"400 .*nope"):
        table.delete("nope = 1")
    table.checkout(1)
    table.restore()
    assert table.search().to_arrow().equals(TABLE)
    assert table.version == 5
    table.restore(2)
    assert table.count_rows() == 2
    with pytest.raises(Exception, match=r"404 .*version 99|not found"):
        table.restore(99)
    assert caller.version("t") == 6


def test_the_official_client_lists_versions_with_their_operations(db):
    table = db.create_table("t", TABLE)
    table.delete("n = 1")
    newest, oldest = table.list_versions()
    assert newest["version"] == 2
    assert newest["metadata"]["operation"] == "delete"
    assert oldest["metadata"]["total_rows"] == str(TABLE.num_rows)
    apart = newest["timestamp"] - oldest["timestamp"]
    assert dt.timedelta(0) < apart < dt.timedelta(minutes=1)


def test_the_official_client_writes_in_parts(db, caller):
    table = db.create_table("t", pa.table({"n": [-1]}))
    big = pa.table({"n": range(300_000)})
    for mode, kept in (("append", [-1]), ("overwrite", [])):
        table.add(big, mode=mode, write_parallelism=3)
        assert sorted(caller.read("t")["n"].to_pylist()) == [*kept, *range(300_000)]


def test_a_large_table_comes_in_many_batches_and_whole(db, caller):
    rng = np.random.default_rng(0)
    kinds = pa.array(rng.integers(0, 9, 300_000).astype(str)).dictionary_encode()
    tables = {
        "long": pa.table({"n": rng.integers(0, 2**62, 300_000), "k": kinds}),
        "wide": pa.table({"s": [rng.bytes(50_000).hex() for _ in range(200)]}),
    }
    for name, table in tables.items():
        assert db.create_table(name, table).search().to_arrow().equals(table)
        answer = caller.send("POST", f"/v1/table/{name}/query/", "{}")
        batches = list(pa.ipc.open_stream(answer.content))
        assert len(batches) > 2
        assert max(batch.nbytes for batch in batches) < 2**24


def test_rows_that_cannot_be_read_to_their_end_are_an_error_and_no_shorter_table(
    db, caller
):
    root = str(caller.root / "t.lance")
    table = pa.table({"n": range(2_000_000)})
    fragments = lance.write_dataset(
        table, root, max_rows_per_file=10**6
    ).get_fragments()
    files = [fragment.data_files()[0].path for fragment in fragments]
    (caller.root / "t.lance" / "data" / files[1]).unlink()
    with pytest.raises(Exception, match=r"error decoding response body|missing"):
        db.open_table("t").search().to_arrow()
    assert db.open_table("t").head(3).to_pylist() == [{"n": 0}, {"n": 1}, {"n": 2}]
    (caller.root / "t.lance" / "data" / files[0]).unlink()
    answer = caller.ask("count_rows", predicate="n > 1")
    assert f"{files[0]} of the table is missing" in message(answer, 500)


def test_what_is_not_done_is_a_501_that_says_what_and_changes_nothing(db, caller):
    table = db.create_table("t", TABLE)
    for call, told in [
        (table.tags.list, "no endpoint"),
        (lambda: table.add_columns({"m": "n + 1"}), "does not compute columns"),
        (lambda: table.search([1.0, 2.0]).to_arrow(), "vector search"),
        (lambda: table.search().select({"m": "n + 1"}).to_arrow(), "names"),
    ]:
        with pytest.raises(Exception, match=f"501 .*{told}"):
            call()
    assert caller.version("t") == 1
    assert caller.read("t").equals(TABLE)


# what the requests of both clients differ in, besides the order of headers, random
# values, and framing: they send rows in chunks, and no length if there is no body
OURS_ALONE = {
    ("accept", "application/json"),
    ("accept-encoding", "identity"),
    ("content-type", "application/json"),  # of a drop, which has no body
}
THEIRS_ALONE = {
    ("accept", "*/*"),
    ("accept-encoding", "gzip"),
    # the client's made-up database "db://x", whose host is overridden
    ("x-lancedb-database", "x"),
    ("x-lancedb-min-read-version", "1"),  # of the table, as they last saw it
}
READS = ("/count_rows/", "/query/", "/describe/")
NOT_COMPARED = {
    "host",
    "user-agent",
    "x-request-id",
    "content-length",
    "transfer-encoding",
}
ROWS = pa.table({"n": pa.array([1], pa.int64()), "s": pa.array(["x"])})
FIELDS = rt.data_type(pa.struct(list(ROWS.schema)))["fields"]
DESCRIBED = {"version": 1, "schema": {"fields": FIELDS}, "table": "t"}
MERGED = {"num_updated_rows": 0, "num_inserted_rows": 1, "num_deleted_rows": 0}
ANSWERED = {
    "count_rows": b"1",
    "merge_insert": {"version": 2, **MERGED},
    "delete": {"version": 2, "num_deleted_rows": 1},
    "restore": {"version": 4},
}
HEADERS = {"phalanx-version": "0.4.0"}
ABOVE = "(`n` IS NOT NULL AND `n` > 1)"
FIRST = "(`n` IS NOT NULL AND `n` = 1)"


class Recording:
    """A server that has all operations, and what a call sent to it."""

    def __init__(self, server):
        self.server = server
        server.script = self.serve

    def serve(self, connection):
        while True:
            request = connection.body(connection.head())
            operation = operation_of(request)
            answer = ANSWERED.get(operation, DESCRIBED)
            if operation == "query":
                columns = json.loads(request.body).get("columns") or ROWS.column_names
                rows = ROWS.select(columns)
                sink = io.BytesIO()
                with pa.ipc.new_file(sink, rows.schema) as writer:
                    writer.write_table(rows)
                answer = sink.getvalue()
            connection.answer(200, answer, HEADERS)

    def sent(self, call, operation=None):
        """Return the last request of a call for an operation, and its headers."""
        del self.server.requests[:]
        call()
        asked = [
            request
            for request in self.server.requests
            if operation in (None, operation_of(request))
        ]
        last = asked[-1]
        body = last.body
        if body and last.headers["content-type"] == "application/json":
            body = json.loads(body)
        elif body:
            body = pa.ipc.open_stream(body).read_all()
        headers = last.headers
        asked_at = headers.pop("x-lancedb-min-timestamp", None)
        # theirs send it with writes, too
        if asked_at and last.path.partition("?")[0].endswith(READS):
            age = dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(asked_at)
            is_now = age < dt.timedelta(minutes=1)
            headers["x-lancedb-min-timestamp"] = "now" if is_now else asked_at
        return (last.method, last.path, body), {*headers.items()}


def operation_of(request):
    return request.path.partition("?")[0].strip("/").rpartition("/")[2]


@pytest.fixture
def both(lancedb, server):
    """A handle of the official client and one of ours, and what they send."""
    database = lancedb.connect(
        "db://x",
        api_key=KEY,
        host_override=server.url,
        # always fresh
        read_consistency_interval=dt.timedelta(0),
    )
    recording = Recording(server)
    ours = connected(server, dialect="lancedb").table("t")
    # so that our client knows what it talks to
    _ = ours.schema
    return database.open_table("t"), ours, recording.sent, database


def test_requests_are_the_official_client_s_but_for_what_is_listed(both):
    theirs, ours, sent, database = both

    def append():
        return rt.to_table(ROWS, "t", client=ours.client, if_exists="append")

    for our_call, their_call in [
        (ours.count, theirs.count_rows),
        (lambda: ours.count([("n", ">", 1)]), lambda: theirs.count_rows(ABOVE)),
        (
            lambda: ours.to_arrow(columns=["n"], where=[("n", ">", 1)], limit=5),
            lambda: theirs.search().where(ABOVE).select(["n"]).limit(5).to_arrow(),
        ),
        (append, lambda: theirs.add(ROWS)),
        # a handle reads what it wrote
        (lambda: append().count(), lambda: (theirs.add(ROWS), theirs.count_rows())),
        (ours.drop, lambda: database.drop_table("t")),
    ]:
        our_request, our_headers = sent(our_call)
        their_request, their_headers = sent(their_call)
        assert our_request == their_request
        check_headers(our_headers, their_headers)


def check_headers(ours, theirs):
    alone = {header for header in ours - theirs if header[0] not in NOT_COMPARED}
    assert alone <= OURS_ALONE
    alone = {header for header in theirs - ours if header[0] not in NOT_COMPARED}
    assert alone <= THEIRS_ALONE


NEW = pa.schema(
    [
        pa.field("small", pa.int8()),
        pa.field("price", pa.decimal128(9, 2)),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("id", pa.uuid()),
    ]
)


def upsert(table, on):
    return table.client.create_table("t", ROWS, if_exists="upsert", on=on)


def merge(table, on):
    rules = table.merge_insert(on).when_matched_update_all()
    return rules.when_not_matched_insert_all().execute(ROWS)


def planned(table, after, **options):
    plan = rt.plan_alterations(ROWS.schema, after, **options)
    return table.client.alter_columns("t", plan)


def pinned(table):
    return rt.table("t", version=3, client=table.client)


def at_version(table, read):
    """Have the official client read a version."""
    table.checkout(3)
    try:
        return read()
    finally:
        table.checkout_latest()


ADDED = pa.schema([*ROWS.schema, *NEW])
OPERATIONS = {  # by name: its endpoint, our call and theirs
    "upsert": (
        "merge_insert",
        lambda ours: upsert(ours, "n"),
        lambda theirs: merge(theirs, "n"),
    ),
    "add columns": (
        "add_columns",
        lambda ours: planned(ours, ADDED, add_columns=True),
        lambda theirs: theirs.add_columns(NEW),
    ),
    "drop columns": (
        "drop_columns",
        lambda ours: planned(ours, ROWS.schema.remove(1), drop_columns=["s"]),
        lambda theirs: theirs.drop_columns(["s"]),
    ),
    "delete": (
        "delete",
        lambda ours: ours.delete([("n", "==", 1)]),
        lambda theirs: theirs.delete(FIRST),
    ),
    "restore": (
        "restore",
        lambda ours: pinned(ours).restore(),
        lambda theirs: theirs.restore(3),
    ),
    "count a version": (
        "count_rows",
        lambda ours: pinned(ours).count(),
        lambda theirs: at_version(theirs, theirs.count_rows),
    ),
    "describe a version": (
        "describe",
        lambda ours: pinned(ours).schema,
        # its last request describes the newest again
        lambda theirs: (theirs.checkout(3), theirs.schema),
    ),
    "read a version": (
        "query",
        lambda ours: pinned(ours).to_arrow(columns=["n"], limit=5),
        lambda theirs: at_version(
            theirs, lambda: theirs.search().select(["n"]).limit(5).to_arrow()
        ),
    ),
    "count what was upserted": (
        "count_rows",
        lambda ours: upsert(ours, "n").count(),
        lambda theirs: (merge(theirs, "n"), theirs.count_rows()),
    ),
    "count what is left": (
        "count_rows",
        lambda ours: (ours.delete([("n", "==", 1)]), ours.count()),
        lambda theirs: (theirs.delete(FIRST), theirs.count_rows()),
    ),
    "count what was restored": (
        "count_rows",
        lambda ours: pinned(ours).restore().count(),
        lambda theirs: (theirs.restore(3), theirs.count_rows()),
    ),
}
# what our requests say otherwise, by operation, and what the official client says
OTHERWISE = {
    # without it, some servers leave the schema out
    "describe": (
        {"version": 3, "load_detailed_metadata": True},
        {"version": 3},
    ),
}
# they count what a restore left without it
OF_RESTORED = {("x-lancedb-min-version", "4")}
WRITES = ("merge_insert", "add_columns", "drop_columns", "delete", "restore")
OF_A_VERSION = ("count a version", "describe a version", "read a version")


@pytest.mark.parametrize("name", OPERATIONS)
def test_changes_and_reads_of_versions_are_the_official_client_s_requests(both, name):
    theirs, ours, sent, _ = both
    operation, our_call, their_call = OPERATIONS[name]
    (*our_line, our_body), our_headers = sent(lambda: our_call(ours), operation)
    (*their_line, their_body), their_headers = sent(
        lambda: their_call(theirs), operation
    )
    if operation == "describe":
        our_line[1] = our_line[1].removesuffix("?load_detailed_metadata=true")
    assert our_line == their_line
    alike = our_body, their_body
    if isinstance(our_body, pa.Table):
        assert our_body.schema.equals(their_body.schema, check_metadata=True)
    assert alike == OTHERWISE.get(operation, (their_body, their_body))
    is_write = operation in WRITES
    fresh = {name for name, _ in our_headers if name.startswith("x-lancedb-")}
    if name == "count what was restored":
        our_headers -= OF_RESTORED
        their_headers -= OF_RESTORED
    check_headers(our_headers, their_headers)
    expected = {"x-lancedb-min-timestamp", "x-lancedb-min-version"}
    if is_write or name in OF_A_VERSION:
        expected = set()
    assert fresh == expected
