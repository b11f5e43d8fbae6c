"""The protocol's official client, straight at the embedded service: what either client writes, the other reads."""

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

FOREIGN = {"map", "vector"}  # it knows no maps, and no vectors that lack a number
ALL_TYPES = pa.table(
    {
        n: pa.array(values, arrow)
        for n, (arrow, values) in COLUMNS.items()
        if n not in FOREIGN
    }
)
ALL_TYPES = ALL_TYPES.append_column(
    "vector", pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.float32(), 2))
)


@pytest.fixture(scope="module")
def lancedb():
    """The client; importing it takes seconds, and each process of the tests imports each of their files."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import lancedb
    return lancedb


@pytest.fixture
def db(lancedb, caller):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield lancedb.connect("db://x", api_key=caller.key, host_override=caller.url)


def test_what_either_client_writes_is_listed_stored_and_read_value_by_value(
    lancedb, db, service
):
    table = ALL_TYPES.append_column("nothing", pa.nulls(3))
    theirs = db.create_table("theirs", table)
    with rt.connect(service.url, api_key=service.api_key, dialect="lancedb") as client:
        client.create_table("ours", ALL_TYPES)
        assert (
            client.list_tables()
            == list(db.table_names())
            == db.list_tables().tables
            == ["ours", "theirs"]
        )
        kept = stored(service, "ours")
        assert client.table("ours").schema.equals(kept.schema)
    assert stored(service, "theirs").equals(table)
    assert theirs.schema.equals(table.schema)
    assert theirs.search().to_arrow().equals(table)
    opened = db.open_table("ours")
    assert opened.schema.equals(kept.schema)
    for found in (
        opened.search().to_arrow(),
        lancedb.connect(str(service.root)).open_table("ours").to_arrow(),
    ):
        assert found.equals(kept)
        assert found.to_pydict() == ALL_TYPES.to_pydict()


def test_the_official_client_is_told_metadata_and_extension_types_and_adds_rows_of_them(
    db, caller
):
    fields = [
        field.with_name(f"c{number}")
        for number, (field, _, _) in enumerate(TOLD.values())
    ]
    flat = [field for field in fields if not pa.types.is_nested(field.type)]
    for name, some in {"all": fields[:-1], "flat": flat}.items():  # it knows no maps
        schema = pa.schema(some, {"a": "b"})
        values = [
            pa.nulls(2, field.type) if field.nullable else pa.array([1, 2], field.type)
            for field in some
        ]
        table = pa.Table.from_arrays(values, schema=schema)
        caller.create(name, table)
        opened = db.open_table(name)
        assert opened.schema.equals(schema, check_metadata=True)
        assert opened.search().to_arrow().schema.equals(schema, check_metadata=True)
    opened.add(table)  # those inside others it sends as what they are stored as
    assert opened.count_rows() == 4


def test_the_official_client_creates_replaces_and_drops(db, caller):
    db.create_table("t", TABLE)
    with pytest.raises(ValueError, match="Table 't' already exists"):
        db.create_table("t", TABLE)
    assert db.create_table("t", TABLE[:1], exist_ok=True).count_rows() == 3
    old = lance.dataset(str(caller.root / "t.lance"))
    assert db.create_table(
        "t", pa.table({"x": [1.5]}), mode="overwrite"
    ).head().to_pylist() == [{"x": 1.5}]
    assert old.to_table().equals(TABLE)
    empty = db.create_table("empty", schema=TABLE.schema)
    assert (empty.count_rows(), empty.schema) == (0, TABLE.schema)
    assert empty.search().to_arrow().equals(TABLE[:0])
    db.drop_table("t")
    assert caller.tables() == ["empty"]
    assert not (caller.root / "t.lance").exists()
    with pytest.raises(ValueError, match="not found"):
        db.open_table("t")
    with pytest.raises(Exception, match="no table 't'"):
        db.drop_table("t")


def test_the_official_client_counts_filters_adds_alters_and_looks_at_an_old_version(
    db, caller
):
    table = db.create_table(
        "t", pa.table({"n": range(5000), "s": [f"r{i % 7}" for i in range(5000)]})
    )
    assert (table.count_rows(), table.count_rows("s = 'r3'"), table.version) == (
        5000,
        714,
        1,
    )
    found = (
        table.search()
        .where("n >= 10 AND s IN ('r3', 'r4')")
        .select(["n"])
        .limit(2)
        .offset(1)
        .to_arrow()
    )
    assert found.to_pylist() == [{"n": 11}, {"n": 17}]
    assert table.search().where("n > 4998").with_row_id(True).to_list() == [
        {"n": 4999, "s": "r1", "_rowid": 4999}
    ]
    altered = {"path": "n", "rename": "m", "data_type": pa.int32(), "nullable": True}
    assert table.alter_columns(altered, {"path": "s", "rename": "t"}).version == 2
    more = pa.table({"m": pa.array([7, None], pa.int32()), "t": ["x", None]})
    table.add(more)
    assert table.search().where("m = 7 OR m IS NULL").to_arrow().to_pydict() == {
        "m": [7, 7, None],
        "t": ["r0", "x", None],
    }
    with pytest.raises(Exception, match="'x' does not exist"):
        table.add(more.append_column("x", [range(2)]))
    old = lance.dataset(str(caller.root / "t.lance"))
    table.add(more, mode="overwrite")
    assert (table.count_rows(), old.count_rows()) == (2, 5002)
    table.checkout(1)
    assert table.schema.names == ["n", "s"]
    assert table.head(2).to_pydict() == {"n": [0, 1], "s": ["r0", "r1"]}
    with pytest.raises(ValueError, match="not found"):
        table.checkout(9)


def test_the_official_client_merges_by_these_two_rules_and_by_no_others(db, caller):
    table = db.create_table("t", pa.table({"id": [1, 2], "a": ["x", "y"]}))
    rows = pa.table({"id": [2, 3], "a": ["Y", "z"]})
    upsert = table.merge_insert("id").when_matched_update_all()
    upsert = upsert.when_not_matched_insert_all()
    done = upsert.execute(rows)
    assert (done.version, done.num_updated_rows, done.num_inserted_rows) == (2, 1, 1)
    assert table.search().to_arrow().sort_by("id").to_pydict() == {
        "id": [1, 2, 3],
        "a": ["x", "Y", "z"],
    }
    with pytest.raises(Exception, match=r"400 .*rows 0 and 2 have the same key"):
        upsert.execute(pa.concat_tables([rows, rows]))
    for others in (
        table.merge_insert("id").when_not_matched_insert_all(),
        table.merge_insert("id").when_matched_update_all(),
        table.merge_insert("id").when_matched_update_all(where="target.id > 1"),
        upsert.when_not_matched_by_source_delete(),
    ):
        with pytest.raises(Exception, match=r"501 .*(not done here|is done here)"):
            others.execute(rows)
    assert caller.version("t") == 2


def test_the_official_client_deletes_adds_and_drops_columns_and_restores(db, caller):
    table = db.create_table("t", TABLE)
    assert table.delete("n = 1").version == 2
    assert table.count_rows() == 2
    new = pa.schema([pa.field("new", pa.decimal128(9, 2)), pa.field("u", pa.uuid())])
    assert table.add_columns(new).version == 3
    assert table.schema.names == ["n", "text", "k", "new", "u"]
    assert (
        table.search()
        .to_arrow()["new"]
        .equals(pa.chunked_array([pa.nulls(2, new.field("new").type)]))
    )
    assert table.drop_columns(["text", "u"]).version == 4
    assert table.schema.names == ["n", "k", "new"]
    with pytest.raises(Exception, match=r"400 .*no columns 'u'"):
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


def test_the_official_client_writes_in_parts(db, caller):
    table, big = (
        db.create_table("t", pa.table({"n": [-1]})),
        pa.table({"n": range(1_000_000)}),
    )
    for mode, kept in (("append", [-1]), ("overwrite", [])):
        table.add(big, mode=mode, write_parallelism=3)
        assert sorted(caller.read("t")["n"].to_pylist()) == [*kept, *range(1_000_000)]


def test_a_large_table_comes_in_many_batches_and_whole(db, caller):
    rng = np.random.default_rng(0)
    kinds = pa.array(rng.integers(0, 9, 300_000).astype(str)).dictionary_encode()
    tables = {
        "long": pa.table({"n": rng.integers(0, 2**62, 300_000), "k": kinds}),
        "wide": pa.table({"s": [rng.bytes(50_000).hex() for _ in range(200)]}),
    }
    for name, table in tables.items():
        assert db.create_table(name, table).search().to_arrow().equals(table)
        batches = list(
            pa.ipc.open_stream(
                caller.send("POST", f"/v1/table/{name}/query/", "{}").content
            )
        )
        assert len(batches) > 2
        assert max(batch.nbytes for batch in batches) < 2**24


def test_rows_that_cannot_be_read_to_their_end_are_an_error_and_no_shorter_table(
    db, caller
):
    root = str(caller.root / "t.lance")
    lance.write_dataset(
        pa.table({"n": range(2_000_000)}), root, max_rows_per_file=1_000_000
    )
    files = [
        fragment.data_files()[0].path
        for fragment in lance.dataset(root).get_fragments()
    ]
    (caller.root / "t.lance" / "data" / files[1]).unlink()
    with pytest.raises(Exception, match=r"error decoding response body|missing"):
        db.open_table("t").search().to_arrow()
    assert db.open_table("t").head(3).to_pylist() == [{"n": 0}, {"n": 1}, {"n": 2}]
    (caller.root / "t.lance" / "data" / files[0]).unlink()
    answer = caller.send("POST", "/v1/table/t/count_rows/", '{"predicate": "n > 1"}')
    assert (answer.status_code, "file of the table is missing" in message(answer)) == (
        500,
        True,
    )


def test_what_is_not_done_is_a_501_that_says_what_and_changes_nothing(db, caller):
    table = db.create_table("t", TABLE)
    for call, told in [
        (table.list_versions, "no endpoint"),
        (lambda: table.add_columns({"m": "n + 1"}), "not computed here"),
        (lambda: table.search([1.0, 2.0]).to_arrow(), "vector search"),
        (lambda: table.search().select({"m": "n + 1"}).to_arrow(), "names"),
    ]:
        with pytest.raises(Exception, match=f"501 .*{told}"):
            call()
    assert caller.version("t") == 1
    assert caller.read("t").equals(TABLE)


# what the requests of both clients differ in, beside their order of headers, values drawn anew each time, and framing:
# they send rows in chunks, and no length where there is no body
OURS_ALONE = {
    ("accept", "application/json"),
    ("accept-encoding", "identity"),
    ("content-type", "application/json"),  # of a drop, which has no body
}
THEIRS_ALONE = {
    ("accept", "*/*"),
    ("accept-encoding", "gzip"),
    (
        "x-lancedb-database",
        "x",
    ),  # of the made-up database "db://x", whose host was overridden
    ("x-lancedb-min-read-version", "1"),  # of the table, as they last saw it
}
READS = ("/count_rows/", "/query/")
NOT_COMPARED = {
    "host",
    "user-agent",
    "x-request-id",
    "content-length",
    "transfer-encoding",
}


def test_requests_are_the_official_client_s_but_for_what_is_listed(lancedb, server):
    fields = [{"name": "n", "type": {"type": "int64"}, "nullable": True}]
    rows, sink = pa.table({"n": pa.array([1], pa.int64())}), io.BytesIO()
    with pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)

    def script(connection):
        while True:
            request = connection.body(connection.head())
            answers = {"/query/": sink.getvalue(), "/count_rows/": b"1"}
            described = {"version": 1, "schema": {"fields": fields}, "table": "t"}
            connection.answer(
                200,
                next(
                    (b for end, b in answers.items() if request.path.endswith(end)),
                    described,
                ),
            )

    def sent(call):
        """Return the last request of a call, and its headers."""
        del server.requests[:]
        call()
        last = server.requests[-1]
        is_json = last.headers.get("content-type") == "application/json"
        body = (
            json.loads(last.body)
            if is_json and last.body
            else last.body and pa.ipc.open_stream(last.body).read_all()
        )
        headers = last.headers
        asked_at = headers.pop("x-lancedb-min-timestamp", None)
        if asked_at and last.path.endswith(READS):  # theirs send it with writes, too
            age = dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(asked_at)
            headers["x-lancedb-min-timestamp"] = (
                "now" if age < dt.timedelta(minutes=1) else asked_at
            )
        return (last.method, last.path, body), {*headers.items()}

    server.script = script
    always_fresh = dt.timedelta(0)
    database = lancedb.connect(
        "db://x",
        api_key=KEY,
        host_override=server.url,
        read_consistency_interval=always_fresh,
    )
    theirs, ours = (
        database.open_table("t"),
        connected(server, dialect="lancedb").table("t"),
    )

    def append():
        return rt.to_table(rows, "t", client=ours.client, if_exists="append")

    for our_call, their_call in [
        (ours.count, theirs.count_rows),
        (
            lambda: ours.count("n > 1"),
            lambda: theirs.count_rows("(n > 1)"),
        ),  # ours are in parentheses
        (
            lambda: ours.to_arrow(columns=["n"], where="n > 1", limit=5),
            lambda: theirs.search().where("(n > 1)").select(["n"]).limit(5).to_arrow(),
        ),
        (append, lambda: theirs.add(rows)),
        (
            lambda: append().count(),
            lambda: (theirs.add(rows), theirs.count_rows()),
        ),  # what a handle wrote, it reads
        (ours.drop, lambda: database.drop_table("t")),
    ]:
        (our_request, our_headers), (their_request, their_headers) = (
            sent(our_call),
            sent(their_call),
        )
        assert our_request == their_request
        assert {
            header
            for header in our_headers - their_headers
            if header[0] not in NOT_COMPARED
        } <= OURS_ALONE
        assert {
            header
            for header in their_headers - our_headers
            if header[0] not in NOT_COMPARED
        } <= THEIRS_ALONE
