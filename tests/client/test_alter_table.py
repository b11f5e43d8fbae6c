"""`alter_table` by name, morning after morning: what may change values is asked for, what is done stays done."""

from __future__ import annotations

import datetime
import traceback

import lance
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt
from rt_frames.errors import AlterationError, BadRequest, UnsupportedTypeError
from tests.client.test_displays import seen_in

AT = datetime.datetime(2024, 5, 1, 10, 0, 0, 123456)
STORED = pl.DataFrame(
    {"qty": [1, 300], "price": [0.1, 1e300], "at": [AT, None], "day": [AT.date(), None], "tag": ["a", "b"]}
)
RENAME = {"qty": "quantity"}
CUT = STORED.cast({"price": pl.Float32, "at": pl.Datetime("ms")}, strict=False)


@pytest.fixture
def table(tmp_path):
    """Yesterday's table, in a folder."""
    with rt.connect(tmp_path / "tables"):
        yield STORED.remote.to_table("t")
    rt.disconnect()


def version(table: rt.RemoteTable) -> int:
    return stored(table).version


def stored(table: rt.RemoteTable) -> lance.LanceDataset:
    return lance.dataset(f"{table.client}/t.lance")


def test_what_would_change_stored_values_is_refused_column_by_column(table):
    with pytest.raises(AlterationError) as refused:
        CUT.remote.alter_table("t")
    assert str(refused.value) == (
        "nothing was sent, as stored values may change; price: double to float keeps 7 digits; "
        "at: microseconds would be cut to milliseconds; pass lossy=True to cast them all the same"
    )
    assert stored(table).to_table() == STORED.to_arrow().cast(stored(table).schema)
    altered = CUT.remote.alter_table("t", lossy=True)
    assert altered.version == version(table) == 2
    assert stored(table).to_table()["at"][0].as_py() == AT.replace(microsecond=123000)


@pytest.mark.parametrize("lossy", [False, True])
@pytest.mark.parametrize(
    ("column", "dtype", "words"),
    [
        ("qty", pl.String, "qty: int64 to large_string: int64 stays within integers; all "),
        (
            "day",
            pl.Datetime("us"),
            "dates in far years would wrap, unless cast to timestamp[ms] first; all 2 rows can be",
        ),
    ],
)
def test_what_the_engine_refuses_or_does_wrong_is_refused_even_where_losses_are_allowed(
    table, column, dtype, words, lossy
):
    with pytest.raises(AlterationError) as refused:
        STORED.cast({column: dtype}).remote.alter_table("t", lossy=lossy)
    assert words in str(refused.value)
    assert str(refused.value).endswith("can be read, cast exactly and replaced; pass rewrite=True")
    with pytest.raises(BadRequest, match="nothing was changed") as answered:
        table.cast({column: dtype})
    assert len(str(answered.value)) < 320
    assert version(table) == 1


def test_the_service_is_told_by_name_and_does_as_told(table):
    assert table.cast({"price": "float32"}).alter_columns({"path": "at", "data_type": {"type": "timestamp:ms:-"}})
    assert stored(table).schema.field("price").type == pa.float32()


@pytest.mark.parametrize("before", [None, STORED, STORED.remote.schema, "table"])
def test_a_second_call_changes_nothing_and_says_so(table, before):
    before = table if isinstance(before, str) else before
    today = STORED.rename(RENAME).cast({"quantity": pl.Int32, "tag": pl.Categorical})
    options = {"rename": RENAME, "nullable": {"quantity": False}}
    plan = today.remote.plan_alterations(rt.table("t"), **options)
    for part in plan.requests():
        rt.alter_columns("t", part)
    assert version(table) == 3
    assert not today.remote.plan_alterations(rt.table("t"), **options)
    for given in (options, {"rename": RENAME, "nullable": {"qty": False}}, {"rename": RENAME}):
        again = today.remote.alter_table("t", *([] if before is None else [before]), **given)
        assert "nothing to alter" in repr(again)
        assert "nothing to alter" in seen_in(again).words
    assert version(table) == 3


def test_the_next_morning_with_only_todays_frame(table):
    for today, expected in [(STORED, 1), (STORED.cast({"qty": pl.Int16}), 2), (STORED.rename(RENAME), 3)]:
        rename = RENAME if "quantity" in today.columns else None
        for again in (False, True):
            altered = today.remote.alter_table("t", rename=rename)
            assert ("nothing to alter" in repr(altered)) == (again or expected == 1)
            assert version(table) == expected
    assert stored(table).to_table().to_pydict() == STORED.rename(RENAME).to_arrow().to_pydict()


def test_what_is_half_done_is_finished(table):
    today = STORED.rename(RENAME).cast({"quantity": pl.Int32})
    table.cast({"qty": "int32"})
    assert "qty: renamed to quantity, at" in repr(today.remote.alter_table("t", STORED, rename=RENAME))
    assert stored(table).schema.field("quantity").type == pa.int32()


def test_renames_in_a_chain_and_inside_structs_are_known_as_done(tmp_path):
    before = pa.table({"a": [1], "b": ["x"], "o": [{"i": 1, "l": [{"x": 1}]}]})
    after = pa.table({"b": [1], "c": ["x"], "outer": [{"inner": 1, "l": [{"y": 1}]}]})
    rename = {"b": "c", "a": "b", "o": "outer", "o.i": "inner", "o.l.item.x": "y"}
    with rt.connect(tmp_path / "tables"):
        table = rt.to_table(before, "t")
        plan = rt.plan_alterations(table, after, rename=rename, nullable={"outer.inner": True})
        assert [one.path for one in plan] == ["a", "b", "o", "o.i", "o.l.item.x"]
        rt.alter_columns("t", plan)
        assert stored(table).to_table().to_pydict() == after.to_pydict()
        assert not rt.plan_alterations(rt.table("t"), after, rename=rename, nullable={"o.i": True})
    rt.disconnect()


def test_a_table_that_is_neither_before_nor_after_is_named_with_its_differences(table):
    table.cast({"qty": "int16"})
    with pytest.raises(AlterationError, match=r"neither as before nor as after.* qty: int16 to int32; nothing"):
        STORED.cast({"qty": pl.Int32}).remote.alter_table("t", STORED)
    assert version(table) == 2


def test_a_rename_that_is_the_wrong_way_round_is_named_as_such(table):
    with pytest.raises(AlterationError, match=r"wrong way round.* pass rename={'qty': 'quantity'}"):
        STORED.rename(RENAME).remote.alter_table("t", rename={"quantity": "qty"})
    with pytest.raises(AlterationError, match="wrong way round"):
        rt.plan_alterations(STORED, STORED.rename(RENAME), rename={"quantity": "qty"})


def test_nullable_takes_old_and_new_names_but_not_both(table):
    today = STORED.rename(RENAME)
    for name in ("qty", "quantity"):
        plan = today.remote.plan_alterations(STORED, rename=RENAME, nullable={name: False})
        assert plan.to_json()["alterations"] == [{"path": "qty", "rename": "quantity", "nullable": False}]
    with pytest.raises(AlterationError, match="names one column twice: 'qty'"):
        today.remote.plan_alterations(STORED, rename=RENAME, nullable={"qty": False, "quantity": False})


def test_before_may_be_the_file_of_a_schema(table, tmp_path):
    (tmp_path / "t.schema").write_bytes(STORED.remote.schema.serialize())
    assert STORED.cast({"qty": pl.Int32}).remote.alter_table("t", tmp_path / "t.schema").version == 2
    (tmp_path / "no.schema").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"no.schema holds no schema; keep one with .*serialize\(\)"):
        STORED.remote.alter_table("t", tmp_path / "no.schema")
    with pytest.raises(FileNotFoundError):
        STORED.remote.alter_table("t", tmp_path / "missing.schema")


def test_the_options_of_a_create_mean_the_same_in_plans(tmp_path):
    frame = pd.DataFrame({("price", "max"): [1.5], ("price", "min"): [0.5]}, index=pd.Index([7], name="key"))
    options = {"clean_names": True, "index": False, "dtypes": {"price_max": "float32"}}
    with rt.connect(tmp_path / "tables"):
        created = frame.remote.to_table("t", **options)
        assert created.schema.names == ["price_max", "price_min"]
        assert "nothing to alter" in repr(frame.remote.alter_table("t", **options))
        plan = frame.remote.plan_alterations(created, **{**options, "dtypes": {"price_min": "float32"}})
        assert [str(one) for one in plan] == ["price_max: float to double", "price_min: double to float"]
        with pytest.raises(AlterationError, match="only after: 'key'"):
            frame.remote.alter_table("t", clean_names=True)
        with pytest.raises(ValueError, match=r"dtypes names columns that are not there: \['nope'\]"):
            frame.remote.alter_table("t", **{**options, "dtypes": {"nope": "int8"}})
        with pytest.raises(ValueError, match="index: only a pandas frame has one"):
            pl.DataFrame({"price_max": [1.5]}).remote.plan_alterations(created, index=True)
    rt.disconnect()


def test_the_order_of_a_dictionary_is_no_difference_as_none_is_stored(tmp_path):
    codes, words = pa.array([1, 0, None], pa.int32()), pa.array(["a", "b"], pa.large_string())
    ordered = pa.DictionaryArray.from_arrays(codes, words, ordered=True)
    frame = pa.table({"c": ordered, "s": pa.StructArray.from_arrays([ordered], names=["x"])})
    with rt.connect(tmp_path / "tables"):
        created = rt.to_table(frame, "t")
        assert created.schema == rt.table("t").schema == stored(created).schema
        assert stored(created).to_table().to_pydict() == frame.to_pydict()
        assert not rt.plan_alterations(rt.table("t"), frame)
        assert not rt.plan_alterations(frame, rt.table("t"))
    rt.disconnect()


def test_what_changed_is_shown_and_a_handle_is_never_stale(table):
    assert table.schema.field("qty").type == pa.int64()
    changes = [rt.Alteration("qty", rename="n", data_type="int32"), rt.Alteration("tag", rename="k")]
    altered = table.alter_columns(changes)
    for shown in (repr(altered), seen_in(altered).words):
        assert "qty: renamed to n, to int32; tag: renamed to k" in shown
    assert table.schema.field("n").type == pa.int32()
    today = STORED.rename({"qty": "n", "tag": "k"}).cast({"n": pl.Int16})
    assert "n: int32 to int16" in repr(today.remote.alter_table("t", table))
    assert table.schema.field("n").type == pa.int16()


def test_a_service_that_cannot_describe_is_sent_what_before_asks_for(service, client):
    with rt.connect(service.url, api_key=service.api_key) as hosted:
        name = STORED.remote.to_table("documented", client=hosted).name
        with pytest.raises(AlterationError, match="price: double to float keeps 7 digits"):
            CUT.remote.alter_table(name, STORED, client=hosted)
        assert "qty: int64 to int32" in repr(STORED.cast({"qty": pl.Int32}).remote.alter_table(name, STORED))
    rt.disconnect()


def test_the_refusal_of_a_cast_is_one_exception_that_counts_from_zero(table):
    for data in (STORED, [STORED, STORED]):
        with pytest.raises(UnsupportedTypeError) as refused:
            rt.to_table(data, "other", dtypes={"qty": "int8"})
        assert "column 'qty', row 1 (" in str(refused.value)
        assert " 0)" in str(refused.value)
        shown = "".join(traceback.format_exception(refused.value))
        assert shown.count("Traceback (most recent call last)") == 1


def test_a_column_that_is_called_remote_is_pointed_out():
    with pytest.raises(AttributeError, match=r'df\["remote"\]'):
        pd.DataFrame({"remote": [1]}).remote.mean()
