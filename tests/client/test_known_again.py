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


@pytest.fixture(params=["folder", "lancedb"])
def known(request, service):
    """A client that can describe tables."""
    if request.param == "folder":
        with rt.connect(service.root) as client:
            yield client
    else:
        with rt.connect(service.url, api_key=service.api_key, dialect="lancedb") as client:
            yield client


def test_a_table_has_the_schema_that_was_sent(known, name):
    table = YESTERDAY.remote.to_table(name)
    assert rt.table(name).schema == table.schema == YESTERDAY.remote.schema
    assert table.rename({"qty": "n"}).schema.names == table.schema.names == ["n", "price", "s"]
    with pytest.raises(TableNotFoundError, match="'nowhere'"):
        rt.table("nowhere").schema  # noqa: B018  # asks


@pytest.mark.parametrize("arrow", [arrow for arrow, _ in RECORDED if arrow != pa.null()] + MAPS, ids=str)
def test_every_type_is_known_again(client, service, name, arrow):
    data = pa.table({"c": pa.nulls(2, arrow), "n": [1, 2]})
    with rt.connect(service.url, api_key=service.api_key, dialect="lancedb") as known:
        sent = known.create_table(name, data, if_exists="replace").schema
        assert rt.plan_alterations(known.table(name), data).to_json() == {"alterations": []}
        assert rt.plan_alterations(known.table(name), sent).to_json() == {"alterations": []}


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
    with pytest.raises(AlterationError, match="column 'c' has no type before"):
        today.assign(c="x").remote.alter_table(name)


@pytest.mark.parametrize("frame", [TODAY, TODAY.to_pandas(), TODAY.to_arrow()], ids=["polars", "pandas", "arrow"])
def test_a_table_follows_todays_frame_without_yesterdays(known, service, name, frame):
    YESTERDAY.remote.to_table(name)
    rename = {"qty": "quantity"}
    if isinstance(frame, pa.Table):
        plan = rt.plan_alterations(rt.table(name), frame, rename=rename)
        rt.alter_columns(name, plan)
    else:
        with pytest.raises(AlterationError, match=r"rename={'qty': 'quantity'}"):
            frame.remote.alter_table(name)
        assert len(frame.remote.plan_alterations(rt.table(name), rename=rename)) == 2
        assert frame.remote.alter_table(name, rename=rename, lossy=True).version == 2
        assert "nothing to alter" in repr(frame.remote.alter_table(name, rename=rename))
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


def test_one_process_creates_a_table_and_another_alters_it(known, service, name):
    code = "import sys, polars as pl, rt_frames; pl.DataFrame({'n': [1, 2]}).remote.to_table(sys.argv[1])"
    named = {"RT_FRAMES_URL": str(known), "RT_FRAMES_API_KEY": service.api_key, "RT_FRAMES_DIALECT": "lancedb"}
    subprocess.run([sys.executable, "-c", code, name], env={**os.environ, **named}, check=True)
    assert pd.DataFrame({"n": [3]}, dtype="int16").remote.alter_table(name).version == 2
    assert stored(service, name).to_pydict() == {"n": [1, 2]}
    assert stored(service, name).schema.field("n").type == pa.int16()


@pytest.mark.parametrize(
    "before",
    [
        YESTERDAY,
        YESTERDAY.schema,
        YESTERDAY.remote.schema,
        dict(YESTERDAY.schema),
        {
            "qty": int,
            "price": "float64",
            "s": {"type": "struct", "fields": [{"name": "x", "type": {"type": "int64"}, "nullable": True}]},
        },
    ],
    ids=["frame", "polars-schema", "arrow-schema", "dict", "dict-of-words"],
)
def test_before_is_whatever_tells_the_columns(client, service, name, before):
    YESTERDAY.remote.to_table(name)
    assert TODAY.remote.alter_table(name, before, rename={"qty": "quantity"}, lossy=True).version == 2
    assert_same_values(stored(service, name), TODAY.to_arrow())


def test_a_table_that_was_just_created_is_before_anywhere(client, name):
    table = YESTERDAY.remote.to_table(name)
    assert TODAY.remote.alter_table(name, table, rename={"qty": "quantity"}, lossy=True).version == 2


def test_a_plan_is_kept_as_json_and_sent_later(client, service, name):
    table = YESTERDAY.remote.to_table(name)
    plan = TODAY.remote.plan_alterations(YESTERDAY, rename={"qty": "quantity"})
    kept = json.loads(json.dumps(plan.to_json()))
    assert rt.alter_columns(name, kept).version == 2
    assert_same_values(stored(service, name), TODAY.to_arrow())
    assert rt.alter_columns(name, {"alterations": []}).version is None
    shown = repr(table.alter_columns({"alterations": []}))
    assert shown == repr(table).replace("version 1", "version 1, nothing to alter")


def test_a_table_is_replaced_in_one_request_whole(known, service, name):
    YESTERDAY.remote.to_table(name)
    with pytest.raises(TableExistsError, match='"replace", which replaces all its rows by these'):
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

    def frames():
        yield YESTERDAY
        raise KeyError("bad row 7")

    with pytest.raises(KeyError, match="bad row 7"):
        rt.to_table(frames(), name, if_exists="replace")
    assert_same_values(stored(service, name), YESTERDAY.to_arrow())
