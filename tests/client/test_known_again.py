"""A table is known again by its name alone, where its service can describe it: a folder, or today's addresses."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames.errors import AlterationError, TableExistsError, TableNotFoundError
from tests.schema.test_data_types import MAPS, RECORDED
from tests.support.compare import assert_same_values, lance, stored

YESTERDAY = pl.DataFrame({"qty": [1, 2], "price": [1.5, None], "s": [{"x": 1}, {"x": 2}]})
TODAY = YESTERDAY.rename({"qty": "quantity"}).cast({"price": pl.Float32})
RENAME = {"qty": "quantity"}


@pytest.fixture(params=["folder", "lancedb"])
def known(request, service):
    """A client that can describe tables."""
    target, options = service.root, {}
    if request.param == "lancedb":
        target, options = service.url, {"api_key": service.api_key, "dialect": "lancedb"}
    with rt.connect(target, **options) as client:
        yield client


def test_a_table_has_the_schema_that_was_sent(known, name):
    table = YESTERDAY.remote.to_table(name)
    assert rt.table(name).schema == table.schema == YESTERDAY.remote.schema
    assert table.rename({"qty": "n"}).schema.names == table.schema.names == ["n", "price", "s"]
    with pytest.raises(TableNotFoundError, match="'nowhere'"):
        rt.table("nowhere").schema  # noqa: B018  # asks


def test_every_type_is_known_again(service, name):
    types = [arrow for arrow, _ in RECORDED if arrow != pa.null()] + MAPS
    data = pa.table({f"c{number}": pa.nulls(2, arrow) for number, arrow in enumerate(types)})
    with rt.connect(service.url, api_key=service.api_key, dialect="lancedb") as known:
        sent = known.create_table(name, data).schema
        for after in (data, sent):
            assert rt.plan_alterations(known.table(name), after).to_json() == {"alterations": []}


def test_a_table_that_others_wrote_may_hold_columns_that_could_not_be_sent(known, service, name):
    data = pa.table(
        {"c": pa.nulls(2), "k": pa.DictionaryArray.from_arrays(pa.array([0, 1], "int8"), ["u", "v"]), "n": [1, 2]}
    )
    lance.write_dataset(data, f"{service.root}/{name}.lance")
    today = pd.DataFrame({"k": pd.Categorical(["u"]), "n": pd.array([1], "int8")})
    with pytest.raises(AlterationError, match="only before: 'c'"):
        today.remote.alter_table(name)
    assert today.remote.alter_table(name, strict=False).version == 2
    assert stored(service, name).schema.field("n").type == pa.int8()
    with pytest.raises(AlterationError, match="'c'"):
        today.assign(c="x").remote.alter_table(name)


@pytest.mark.parametrize("frame", [TODAY, TODAY.to_pandas(), TODAY.to_arrow()], ids=["polars", "pandas", "arrow"])
def test_a_table_follows_todays_frame_without_yesterdays(known, service, name, frame):
    YESTERDAY.remote.to_table(name)
    plan = rt.plan_alterations(rt.table(name), frame, rename=RENAME)
    assert len(plan) == 2
    if isinstance(frame, pa.Table):
        rt.alter_columns(name, plan)
    else:
        with pytest.raises(AlterationError, match=r"rename={'qty': 'quantity'}"):
            frame.remote.alter_table(name)
        assert frame.remote.alter_table(name, rename=RENAME, lossy=True).version == 2
        assert frame.remote.alter_table(name, rename=RENAME).version is None  # there was nothing to alter
    assert_same_values(stored(service, name), TODAY.to_arrow())
    assert not rt.plan_alterations(rt.table(name), frame)


def test_pandas_columns_are_known_again(known, name):
    frame = pd.DataFrame(
        {
            "at": pd.date_range("2020-01-01", periods=2, tz="Europe/Paris"),
            "k": pd.Categorical(["u", "v"]),
            "t": ["x", None],
            "n": pd.array([1, None], "Int16"),
            "v": list(np.zeros((2, 3), "float32")),
        }
    )
    frame.remote.to_table(name)
    assert not frame.remote.plan_alterations(rt.table(name))
    assert frame.remote.alter_table(name).version is None


def test_one_process_creates_a_table_and_another_alters_it(service, name):
    code = "import sys, polars as pl, rt_frames; pl.DataFrame({'n': [1, 2]}).remote.to_table(sys.argv[1])"
    target = {"RT_FRAMES_URL": str(service.root)}
    subprocess.run([sys.executable, "-c", code, name], env={**os.environ, **target}, check=True)
    with rt.connect(service.root):
        assert pd.DataFrame({"n": [3]}, dtype="int16").remote.alter_table(name).version == 2
    assert stored(service, name).to_pydict() == {"n": [1, 2]}
    assert stored(service, name).schema.field("n").type == pa.int16()


WORDS = {"qty": int, "price": "float64", "s": rt.data_type(pl.Struct({"x": pl.Int64}))}
BEFORE = [YESTERDAY, YESTERDAY.schema, YESTERDAY.remote.schema, dict(YESTERDAY.schema), WORDS, "the created table"]


@pytest.mark.parametrize("before", BEFORE, ids=lambda before: type(before).__name__)
def test_before_is_whatever_tells_the_columns(client, service, name, before):
    table = YESTERDAY.remote.to_table(name)
    before = table if isinstance(before, str) else before
    assert TODAY.remote.alter_table(name, before, rename=RENAME, lossy=True).version == 2
    assert_same_values(stored(service, name), TODAY.to_arrow())


def test_a_plan_is_kept_as_json_and_sent_later(client, service, name):
    table = YESTERDAY.remote.to_table(name)
    kept = json.dumps(TODAY.remote.plan_alterations(YESTERDAY, rename=RENAME).to_json())
    assert rt.alter_columns(name, json.loads(kept)).version == 2
    assert_same_values(stored(service, name), TODAY.to_arrow())
    assert rt.alter_columns(name, {"alterations": []}).version is None
    assert "nothing to alter" in repr(table.alter_columns({"alterations": []}))


def test_a_table_is_replaced_in_one_request_whole(known, service, name):
    YESTERDAY.remote.to_table(name)
    with pytest.raises(TableExistsError, match='"replace"'):
        TODAY.remote.to_table(name)
    table = TODAY.remote.to_table(name, if_exists="replace")
    assert (table.created, table.rows, table.version) == (True, 2, 2)
    assert_same_values(stored(service, name), TODAY.to_arrow())
    many = pd.DataFrame({"n": np.arange(2_000_000)})
    assert many.remote.to_table(name, if_exists="replace").version == 3  # larger than what is looked up first
    assert_same_values(stored(service, name), pa.Table.from_pandas(many))
    assert YESTERDAY.remote.to_table(name + "_new", if_exists="replace").version == 1


def test_a_source_that_fails_leaves_the_table_that_was_to_be_replaced(known, service, name):
    YESTERDAY.remote.to_table(name)
    with pytest.raises(ZeroDivisionError):
        rt.to_table((YESTERDAY.head(1 // number) for number in (1, 0)), name, if_exists="replace")
    assert_same_values(stored(service, name), YESTERDAY.to_arrow())
