"""Tables that are read, cast exactly and replaced: each value is the same afterwards, or its row is named."""

from __future__ import annotations

import lance
import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames.errors import AlterationError, ConflictError, UnsupportedTypeError
from tests.schema.test_casts import array, edges, meant
from tests.support.faults import connected
from tests.support.hosted import Hosted, serving
from tests.support.local import nested


@pytest.fixture
def client(tmp_path):
    with rt.connect(tmp_path / "tables") as client:
        yield client


def stored_at(table):
    return f"{table.client}/{table.name}.lance"


def stored(table):
    return lance.dataset(stored_at(table))


def test_all_of_a_plan_is_done_at_any_depth(client):
    rt.to_table(pa.table({"day": ["2024-02-29", None], **{c: nested()[c] for c in ("n", "s", "l", "v")}}), "t")
    item = {
        "s": pl.Struct({"x": pl.String, "z": pl.String}),
        "l": pl.List(pl.Struct({"x": pl.Float64, "y": pl.String})),
    }
    after = {"at": pl.Date, "n": pl.Decimal(10, 1), **item, "v": pl.List(pl.String)}
    options = {"rename": {"day": "at", "s.y": "z"}, "rewrite": True}
    table = pl.DataFrame(schema=after).remote.alter_table("t", **options)
    assert (table.version, table.rows) == (2, 2)
    assert stored(table).to_table().to_pylist() == [
        {"at": pa.scalar("2024-02-29").cast(pa.date32()).as_py(), "n": 1, "s": {"x": "1", "z": "p"},
         "l": [{"x": 5.0, "y": "r"}], "v": ["1"]},
        {"at": None, "n": 2, "s": {"x": "2", "z": "q"}, "l": [], "v": ["2", "3"]},
    ]  # fmt: skip
    assert table.rename({"at": "day"}).version == 3
    assert not pl.DataFrame(schema={**after, "day": pl.Date}).drop("at").remote.plan_alterations(rt.table("t"))


def test_what_does_not_fit_is_refused_by_row_and_nothing_changes(client):
    table = rt.to_table(pa.table({"x": [1.0, 2.5], "keep": ["a", "b"]}), "t")
    with pytest.raises(AlterationError, match=r"all 2 rows can be read, cast exactly and replaced; pass rewrite=True"):
        pl.DataFrame(schema={"x": pl.Int64, "keep": pl.String}).remote.alter_table("t")
    for dtype in (pl.Int64, pl.Float32):
        fits = pl.DataFrame(schema={"x": dtype, "keep": pl.String})
        if dtype == pl.Int64:
            with pytest.raises(UnsupportedTypeError, match=r"column 'x', row 1"):
                fits.remote.alter_table("t", rewrite=True)
            assert stored(table).version == 1
        else:
            assert fits.remote.alter_table("t", rewrite=True).version == 2
    with pytest.raises(ValueError, match="pass one of them"):
        fits.remote.alter_table("t", rewrite=True, lossy=True)


def test_metadata_stays_and_indices_go_with_a_warning(client, caplog):
    table = client.table("t")
    made = lance.write_dataset(pa.table({"n": [1, 2]}).replace_schema_metadata({"made": "by others"}), stored_at(table))
    made.create_scalar_index("n", "BTREE")
    pl.DataFrame(schema={"n": pl.String}).remote.alter_table("t", rewrite=True)
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [
        "table t has no indices any more; these went with the rewrite: n_idx"
    ]
    assert stored(table).schema.metadata == {b"made": b"by others"}
    assert stored(table).to_table()["n"].to_pylist() == ["1", "2"]


@pytest.mark.parametrize(("text", "dtype"), [("0.1", pl.Float32), ("1e-400", pl.Float64), ("16777217", pl.Float32)])
def test_text_that_no_float_is_is_refused_by_row(client, text, dtype):
    table = rt.to_table(pa.table({"x": ["0.5", text]}), "t")
    with pytest.raises(UnsupportedTypeError, match="column 'x', row 1"):
        pl.DataFrame(schema={"x": dtype}).remote.alter_table("t", rewrite=True)
    assert stored(table).version == 1


def is_same(before: pa.Array, after: pa.Array) -> bool:
    """Return whether values are the same once they are cast back; so is what Arrow has no way back for."""
    before, after = (a.dictionary_decode() if pa.types.is_dictionary(a.type) else a for a in (before, after))
    if before.type == pa.float16():  # few casts know it
        before = before.cast(pa.float64())
    try:
        back = after.cast(before.type)
    except pa.ArrowNotImplementedError:
        return True
    except pa.ArrowException:
        is_text = pa.types.is_large_string(after.type) or pa.types.is_string(after.type)  # of years beyond 9999
        return is_text or meant(before) == meant(after)
    one, other = meant(before), meant(back)
    return one == other or (one == ["-0.0"] and other == ["0.0"])  # decimals and integers have one zero


@pytest.mark.parametrize("step", [120, pytest.param(10, marks=pytest.mark.long)])
def test_every_cast_is_exact_or_refused(client, step):
    values, wrong, done = edges(), [], 0
    for i, (before, its) in enumerate(values.items()):
        for n, value in enumerate(its):
            for after in [arrow for arrow in values if arrow != before][(7 * i + n) % step :: step]:
                sent = pa.table({"c": array(before, [value])})
                client.create_table("t", sent, if_exists="replace")
                try:
                    rt._api.alter_table(pa.schema([("c", after)]), "t", client=client, rewrite=True)
                except (UnsupportedTypeError, AlterationError, rt.errors.BadRequest):
                    assert meant(stored(client.table("t")).to_table()["c"].combine_chunks()) == meant(
                        sent["c"].chunk(0)
                    )
                    continue
                found = stored(client.table("t")).to_table()["c"].combine_chunks()
                done += 1
                assert str(found.type) == str(rt.arrow_type(rt.data_type(after)))
                if not is_same(sent["c"].combine_chunks(), found):
                    wrong.append((str(before), str(after), value, str(found)))
    assert wrong == [], "\n".join(map(str, wrong))
    assert done > 300 / step


def test_a_service_without_rewrites_says_what_is_left(remote, server):
    plan = rt.plan_alterations(pa.schema([("n", pa.int64())]), pa.schema([("n", pa.string())]))
    server.answering((200, {"version": 1}))
    before = pa.schema([("n", pa.int64())])
    with pytest.raises(AlterationError, match="can neither read rows back nor replace a table, so store all rows anew"):
        pl.DataFrame(schema={"n": pl.String}).remote.alter_table("t", before, client=remote)
    with pytest.raises(ValueError, match=r'no way to write a table in parts; connect with dialect="lancedb"'):
        pl.DataFrame(schema={"n": pl.String}).remote.alter_table("t", before, client=remote, rewrite=True)
    assert plan
    assert server.posts == []


@pytest.mark.parametrize(
    ("version", "fault", "said"),
    [
        ("0.4.0", "500", "all rows can be read, cast exactly and replaced; pass rewrite=True"),
        ("0.3.0", "", "the service takes no writes in parts, which a rewrite needs, so store all rows anew"),
    ],
)
def test_a_refusal_offers_what_the_service_can_do_and_nothing_hides_it(version, fault, said):
    hosted = Hosted(version=version, fault=lambda _, step: fault if step == "count_rows" else "")
    with serving(hosted) as server, connected(server, dialect="lancedb", retries=0) as client:
        client.create_table("t", pa.table({"n": [1]}))
        with pytest.raises(AlterationError, match=said):
            pl.DataFrame(schema={"n": pl.String}).remote.alter_table("t", client=client)


@pytest.mark.parametrize("happens", ["create_parts", "part"])
def test_what_somebody_else_writes_meanwhile_is_not_lost(happens):
    hosted, rows = Hosted(), pa.table({"n": [1, 2]})
    with serving(hosted) as server, connected(server, dialect="lancedb") as client:
        client.create_table("t", rows)
        client.list_tables()
        hosted.query = lambda table, *_: (200, in_stream(table.rows))

        def somebody_writes(step):
            if step == happens:
                hosted.tables["t"].versions.append([rows, pa.table({"n": [3]})])

        hosted.changed = somebody_writes
        with pytest.raises(ConflictError, match=r"meanwhile;.* nothing was changed"):
            pl.DataFrame(schema={"n": pl.String}).remote.alter_table("t", client=client, rewrite=True)
        assert hosted.tables["t"].rows["n"].to_pylist() == [1, 2, 3]
        assert ("complete" in hosted.steps) == (happens == "create_parts")  # the service itself sees that one
        assert hosted.uploads == {}
        hosted.changed = lambda _: None
        table = pl.DataFrame(schema={"n": pl.String}).remote.alter_table("t", client=client, rewrite=True)
        assert hosted.tables["t"].rows["n"].to_pylist() == ["1", "2", "3"]
        assert table.rows == 3


def in_stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def test_a_rewrite_asks_for_versions_and_tells_them_where_its_end_is_open():
    hosted, rows = Hosted(), pa.table({"n": [1, 2]})
    with serving(hosted) as server, connected(server, dialect="lancedb", retries=0) as client:
        client.create_table("t", rows)
        hosted.query = lambda table, *_: (200, in_stream(table.rows))
        hosted.fault = lambda _, step: "lose the answer" if step == "complete" else ""
        with pytest.raises(rt.errors.OutcomeUnknown, match="it had version 1 and 2 rows before, and has 2 and 2 now"):
            pl.DataFrame(schema={"n": pl.String}).remote.alter_table("t", client=client, rewrite=True)
        hosted.fault, describe = lambda *_: "", hosted.describe
        hosted.describe = lambda *about: (200, {**describe(*about)[1], "version": None})
        with pytest.raises(ValueError, match="does not tell the version of table 't', which a rewrite needs"):
            pl.DataFrame(schema={"n": pl.Int8}).remote.alter_table("t", client=client, rewrite=True)
        assert hosted.uploads == {}
