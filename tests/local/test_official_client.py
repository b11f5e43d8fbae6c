"""The protocol's official client, straight at the embedded service: what either client writes, the other reads."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import warnings
from pathlib import Path

import lance
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.types as is_
import pytest

import rt_frames as rt
from rt_frames._schema.data_type import is_list
from tests.support.compare import stored
from tests.support.local import TABLE, message

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import lancedb

RECORDED = [
    eval(entry["arrow"])  # the file is ours
    for entry in json.loads((Path(__file__).parents[1] / "schema" / "data_types.json").read_text())
]
VALUES = [
    (is_.is_boolean, True),
    (is_.is_integer, 7),
    (is_.is_floating, 1.5),
    (is_.is_string, "é"),
    (is_.is_large_string, ""),
    (is_.is_fixed_size_binary, bytes(16)),
    (is_.is_binary, b"\0"),
    (is_.is_large_binary, b""),
    (is_.is_date, dt.date(2020, 1, 2)),
    (is_.is_time, dt.time(1, 2, 3)),
    (is_.is_timestamp, dt.datetime(2020, 1, 2, 3, tzinfo=dt.UTC)),
    (is_.is_duration, dt.timedelta(seconds=5)),
    (is_.is_decimal, decimal.Decimal("1.25")),
]


def value(arrow):
    if is_.is_struct(arrow):
        return {field.name: value(field.type) for field in arrow}
    if is_list(arrow):
        return [value(arrow.value_type)] * (arrow.list_size if is_.is_fixed_size_list(arrow) else 2)
    if is_.is_dictionary(arrow):
        return value(arrow.value_type)
    return next((made for test, made in VALUES if test(arrow)), None)


def of_all_types():
    rows = [
        [value(arrow), value(arrow) if is_.is_fixed_size_list(arrow) else None] for arrow in RECORDED
    ]  # its own rule
    return pa.table([pa.array(*both) for both in zip(rows, RECORDED, strict=True)], [f"c{i}" for i in range(len(rows))])


@pytest.fixture(params=["documented", "lancedb"])
def ours(request, service):
    with rt.connect(service.url, api_key=service.api_key, dialect=request.param) as client:
        yield client


@pytest.fixture
def db(caller):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield lancedb.connect("db://x", api_key=caller.key, host_override=caller.url)


def test_what_the_official_client_writes_is_listed_and_stored_value_by_value(db, caller, ours, service):
    table = of_all_types()
    opened = db.create_table("t", table)
    assert ours.list_tables() == ["t"]
    assert stored(service, "t").equals(table)
    assert opened.schema.equals(table.schema)
    assert opened.search().to_arrow().equals(table)


def test_what_is_written_here_is_read_by_the_official_client_value_by_value(db, ours, service):
    table = of_all_types().drop("c0")  # columns of nulls are not sent
    ours.create_table("t", table)
    opened = db.open_table("t")
    kept = stored(service, "t")
    with rt.connect(service.url, api_key=service.api_key, dialect="lancedb") as able:
        assert able.table("t").schema.equals(kept.schema)
    assert opened.schema.equals(kept.schema)
    found = opened.search().to_arrow()
    assert found.equals(kept)
    for name in table.column_names:
        assert found[name].to_pylist() == table[name].to_pylist(), name


def test_the_official_client_reads_frames_of_both_libraries(db, client):
    rt.to_table(pd.DataFrame({"n": [1, 2], "s": pd.Series(["a", None], dtype="str")}), "of_pandas", client=client)
    rt.to_table(pl.DataFrame({"n": [1, 2], "k": ["a", None]}, schema_overrides={"k": pl.Categorical}), "of_polars")
    assert list(db.table_names()) == db.list_tables().tables == ["of_pandas", "of_polars"]
    frame = db.open_table("of_pandas").search().limit(10).to_pandas()
    assert frame["n"].tolist() == [1, 2]
    assert frame["s"].fillna("-").tolist() == ["a", "-"]
    assert db.open_table("of_polars").search().to_polars().rows() == [(1, "a"), (2, None)]


def test_the_official_client_pages_through_the_names(db, caller):
    for i in range(25):
        caller.create(f"t{i:02}", TABLE)
    names, token = [], None
    while token is not None or not names:
        page = db.list_tables(limit=10, page_token=token)
        names, token = names + page.tables, page.page_token
    assert names == [f"t{i:02}" for i in range(25)]
    assert list(db.table_names(limit=20, page_token="t19")) == names[20:]


def test_the_official_client_creates_replaces_and_drops(db, caller):
    db.create_table("t", TABLE)
    with pytest.raises(ValueError, match="Table 't' already exists"):
        db.create_table("t", TABLE)
    assert db.create_table("t", TABLE[:1], exist_ok=True).count_rows() == 3
    old = lance.dataset(str(caller.root / "t.lance"))
    assert db.create_table("t", pa.table({"x": [1.5]}), mode="overwrite").head().to_pylist() == [{"x": 1.5}]
    assert old.to_table().equals(TABLE)
    empty = db.create_table("empty", schema=TABLE.schema)
    assert (empty.count_rows(), empty.schema) == (0, TABLE.schema)
    assert empty.search().to_arrow().equals(TABLE[:0])
    db.drop_table("t")
    assert caller.tables() == ["empty"]
    assert not (caller.root / "t.lance").exists()
    with pytest.raises(ValueError, match="not found"):
        db.open_table("t")
    with pytest.raises(Exception, match="there is no table 't'"):
        db.drop_table("t")


def test_the_official_client_counts_filters_selects_and_limits(db, caller):
    rows = pa.table({"n": range(5000), "s": [f"r{i % 7}" for i in range(5000)]})
    table = db.create_table("t", rows)
    assert (table.count_rows(), table.count_rows("s = 'r3'"), table.version) == (5000, 714, 1)
    assert table.head(3).equals(rows[:3])
    found = table.search().where("n >= 10 AND s IN ('r3', 'r4')").select(["n"]).limit(2).offset(1).to_arrow()
    assert found.to_pylist() == [{"n": 11}, {"n": 17}]
    assert table.search().where("n > 4998").with_row_id(True).to_list() == [{"n": 4999, "s": "r1", "_rowid": 4999}]
    within = table.search().where(f"n IN ({', '.join(map(str, range(1500)))})").limit(5000)
    assert within.to_arrow()["n"].to_pylist() == list(range(1500))


def test_the_official_client_adds_rows_and_replaces_them(db, caller):
    table = db.create_table("t", TABLE)
    table.add(TABLE[:1])
    assert table.search().to_arrow().equals(pa.concat_tables([TABLE, TABLE[:1]]).unify_dictionaries())
    table.alter_columns({"path": "n", "data_type": pa.int32()})
    narrow = TABLE.set_column(0, "n", TABLE["n"].cast(pa.int32()))
    table.add(narrow[1:])
    assert table.search().to_arrow()["n"].to_pylist() == [
        *TABLE["n"].to_pylist(),
        TABLE["n"][0].as_py(),
        *TABLE["n"][1:].to_pylist(),
    ]
    with pytest.raises(Exception, match="'x' does not exist"):
        table.add(narrow.append_column("x", [range(len(narrow))]))
    old = lance.dataset(str(caller.root / "t.lance"))
    table.add(TABLE[:1], mode="overwrite")
    assert table.count_rows() == 1
    assert old.count_rows() == 2 * len(TABLE)
    assert caller.staged() == []


def test_the_official_client_alters_and_looks_at_an_old_version(db, caller):
    table = db.create_table("t", TABLE)
    altered = {"path": "n", "rename": "m", "data_type": pa.int32(), "nullable": True}
    assert table.alter_columns(altered, {"path": "k", "rename": "category"}).version == 2
    assert table.schema.names == ["m", "text", "category"]
    assert table.search().to_arrow()["m"].equals(TABLE["n"].cast(pa.int32()))
    table.checkout(1)
    assert table.schema.equals(TABLE.schema)
    assert table.head().equals(TABLE)
    with pytest.raises(ValueError, match="not found"):
        table.checkout(9)


def test_a_large_table_comes_in_many_batches_and_whole(db, caller):
    rng = np.random.default_rng(0)
    rows = pa.table({"n": rng.integers(0, 2**62, 600_000), "k": pa.array(rng.integers(0, 9, 600_000).astype(str))})
    rows = rows.set_column(1, "k", rows["k"].dictionary_encode())
    assert db.create_table("t", rows).search().to_arrow().equals(rows)
    wide = pa.table({"s": [rng.bytes(50_000).hex() for _ in range(200)]})
    assert db.create_table("wide", wide).search().to_arrow().equals(wide)
    for name in ("t", "wide"):
        batches = list(pa.ipc.open_stream(caller.send("POST", f"/v1/table/{name}/query/", "{}").content))
        assert len(batches) > 2
        assert max(batch.nbytes for batch in batches) < 2**24


def test_rows_that_cannot_be_read_to_their_end_are_an_error_and_no_shorter_table(db, caller):
    root = str(caller.root / "t.lance")
    lance.write_dataset(pa.table({"n": range(2_000_000)}), root, max_rows_per_file=1_000_000)
    files = [fragment.data_files()[0].path for fragment in lance.dataset(root).get_fragments()]
    (caller.root / "t.lance" / "data" / files[1]).unlink()
    with pytest.raises(Exception, match=r"error decoding response body|missing"):
        db.open_table("t").search().to_arrow()
    assert db.open_table("t").head(3).to_pylist() == [{"n": 0}, {"n": 1}, {"n": 2}]
    (caller.root / "t.lance" / "data" / files[0]).unlink()
    answer = caller.send("POST", "/v1/table/t/count_rows/", '{"predicate": "n > 1"}')
    assert answer.status_code == 500
    assert message(answer).endswith("a file of the table is missing; look at the service's folder")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda table: table.delete("n = 1"), "501 .*there is no such endpoint; there are .*/query/"),
        (lambda table: table.list_versions(), "501 .*there is no such endpoint"),
        (lambda table: table.search([1.0, 2.0]).to_arrow(), "501 .*there is no vector search here"),
        (lambda table: table.search().select({"m": "n + 1"}).to_arrow(), "501 .*selected by their names"),
    ],
    ids=["delete", "versions", "vector", "expressions"],
)
def test_what_is_not_done_is_a_sentence_and_changes_nothing(db, caller, call, words):
    table = db.create_table("t", TABLE)
    with pytest.raises(Exception, match=words):
        call(table)
    assert caller.version("t") == 1
    assert caller.read("t").equals(TABLE)


def test_the_official_client_needs_the_key(caller):
    with pytest.raises(Exception, match="x-api-key"):
        lancedb.connect("db://x", api_key="wrong", host_override=caller.url).list_tables()
