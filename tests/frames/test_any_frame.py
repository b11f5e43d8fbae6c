"""Whatever a frame holds: it is stored and reads back equal, value by value, or it is refused by column."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from hypothesis.extra import pandas as hpd
from polars.testing import assert_frame_equal
from polars.testing.parametric import dataframes

import rt_frames as rt
from rt_frames._frames.any_frame import open_source
from rt_frames._frames.ipc import IPCStream
from rt_frames.errors import UnsupportedTypeError
from tests.frames.test_dictionaries import AtWill
from tests.frames.test_layouts import Own
from tests.support.compare import lance
from tests.support.examples import uploading

number = itertools.count()


def offered_dtypes(frame) -> dict | None:
    """Return the dtypes that the refusal of a frame offers, if it is refused; None where it leaves them to the user."""
    try:
        open_source(frame)
    except UnsupportedTypeError as error:
        offered = str(error).partition("dtypes=")[2]
        return None if "…" in offered else eval(offered, {"pyarrow": pa})
    return {}


def there_and_back(client, service, frame, **options) -> pa.Table | None:
    """Store a frame and read it with lance; None where it was refused in the way it may be."""
    name = f"any_{next(number)}"
    try:
        client.create_table(name, frame, **options)
    except (rt.errors.RemoteError, ValueError) as refused:
        message = str(refused)
    else:
        message = ""
    if message:
        columns = frame.schema.names if isinstance(frame, pa.Table) else frame.columns
        named = any(repr(column)[1:-1] in message for column in columns)
        assert named or "no columns" in message, message
        assert name not in client.list_tables()
        return None
    stored = lance.dataset(str(Path(service.root) / f"{name}.lance")).to_table()
    shutil.rmtree(Path(service.root) / f"{name}.lance")
    return stored


nested = {pl.List: 3, pl.Array: 3, pl.Struct: 3}
flat = [pl.Int8, pl.UInt64, pl.Float32, pl.String, pl.Binary, pl.Boolean, pl.Date, pl.Datetime, pl.Categorical]
if tuple(map(int, pl.__version__.split(".")[:2])) < (1, 38):
    flat.remove(pl.Categorical)  # until then Polars could not make arrays of them


@uploading
@given(frame=dataframes(max_cols=4, max_size=6, allow_null=True))
def test_every_polars_frame_comes_back_equal_or_is_refused_by_column(client, service, frame):
    stored = there_and_back(client, service, frame)
    if stored is not None:
        assert_frame_equal(pl.from_arrow(stored), frame, categorical_as_str=True, check_dtypes=False, check_exact=True)


@uploading
@given(frame=dataframes(max_cols=3, max_size=6, allowed_dtypes=[*nested, *flat], allow_null=True, min_cols=1))
def test_every_nested_polars_frame_comes_back_equal_or_is_refused_by_column(client, service, frame):
    stored = there_and_back(client, service, frame)
    if stored is not None:
        assert_frame_equal(pl.from_arrow(stored), frame, categorical_as_str=True, check_dtypes=False, check_exact=True)


text = st.text(st.characters(codec="utf-8"), max_size=8)
moments = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))
whole = st.integers(-(2**63), 2**63 - 1)
objects = st.one_of(
    *(
        st.lists(st.none() | kind, max_size=6)
        for kind in (
            text,
            whole,
            st.booleans(),
            st.binary(max_size=4),
            st.dates(),
            st.datetimes(),
            st.times(),
            st.floats(allow_nan=False),
            st.timedeltas(dt.timedelta(-(10**5)), dt.timedelta(10**5)),
            st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**9), max_value=10**9),
            st.lists(whole, max_size=3),
            st.fixed_dictionaries({"x": whole, "y": text}),
            text | whole,
        )
    )
)


def column(values: list, dtype: object) -> pd.Series:
    return pd.Series(values, dtype=dtype)


def objects_column(values: list) -> pd.Series:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return pd.Series(array, dtype=object)


COARSE = "s" if int(pd.__version__[0]) >= 3 else "ns"  # pandas 2 takes other units of timedeltas through objects only
numpy_dtypes = st.one_of(
    hnp.integer_dtypes(), hnp.unsigned_integer_dtypes(), hnp.floating_dtypes(sizes=(16, 32, 64)), hnp.boolean_dtypes(),
    hnp.datetime64_dtypes(max_period="s", min_period="ns"), hnp.timedelta64_dtypes(max_period=COARSE, min_period="ns"),
    hnp.complex_number_dtypes(),
)  # fmt: skip
numpy_columns = numpy_dtypes.flatmap(lambda dtype: hpd.series(dtype=dtype, index=hpd.range_indexes(max_size=6)))
optional = {
    "Int8": st.integers(-128, 127),
    "UInt64": st.integers(0, 2**64 - 1),
    "Float32": st.floats(width=32, allow_nan=False),
    "boolean": st.booleans(),
    "string": text,
    "str": text,
    "int64[pyarrow]": whole,
    "double[pyarrow]": st.floats(allow_nan=False),
    "datetime64[ns, Europe/Paris]": moments.map(lambda m: pd.Timestamp(m, tz="UTC")),
    "datetime64[us, UTC]": moments.map(lambda m: pd.Timestamp(m, tz="UTC")),
    "category": text,
    pd.CategoricalDtype([1, 5, 9]): st.sampled_from([1, 5, 9]),
    pd.ArrowDtype(pa.decimal128(10, 2)): st.integers(-(10**7), 10**7).map(lambda i: decimal.Decimal(i) / 100),
    pd.ArrowDtype(pa.list_(pa.string())): st.lists(text, max_size=3),
    pd.ArrowDtype(pa.struct([("x", pa.int8())])): st.fixed_dictionaries({"x": st.integers(-128, 127)}),
    pd.ArrowDtype(pa.date32()): st.dates(),
}
optional_columns = st.sampled_from(list(optional)).flatmap(
    lambda dtype: st.lists(st.none() | optional[dtype], max_size=6).map(lambda values: column(values, dtype))
)
pandas_columns = numpy_columns | optional_columns | objects.map(objects_column)


def same(stored: object, wanted: object) -> bool:
    """Compare one value as Python sees it, missing being missing whatever it is called."""
    if wanted is np.ma.masked:
        return stored is None
    if isinstance(wanted, list | tuple | np.ndarray):
        return len(stored) == len(wanted) and all(map(same, stored, wanted))
    if isinstance(wanted, dict):
        return all(same(stored[key], wanted[key]) for key in wanted)
    if stored is None or wanted is None or wanted is pd.NA or wanted is pd.NaT or wanted != wanted:  # noqa: PLR0124  # NaN
        return stored is None and bool(pd.isna(wanted))
    if isinstance(wanted, pd.Timestamp | pd.Timedelta | np.datetime64 | np.timedelta64):
        kind = pd.Timestamp if isinstance(wanted, pd.Timestamp | np.datetime64) else pd.Timedelta
        return kind(stored) == kind(wanted)
    return bool(stored == wanted) and isinstance(stored, bool) == isinstance(wanted, bool | np.bool_)


def as_python(stored: pa.ChunkedArray, series: pd.Series) -> tuple[list, list]:
    """Give both sides' values; moments beyond Python's calendar as the numbers that they are."""
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "mM":
        numbers = series.to_numpy().astype("int64").tolist()
        return stored.cast(pa.int64()).to_pylist(), [None if n == -(2**63) else n for n in numbers]
    return stored.to_pylist(), series.tolist()


@uploading
@given(columns=st.lists(pandas_columns, min_size=1, max_size=3))
def test_every_pandas_frame_comes_back_equal_or_is_refused_by_column(client, service, columns):
    rows = min(map(len, columns))
    frame = pd.DataFrame({f"c{i}": series.iloc[:rows].reset_index(drop=True) for i, series in enumerate(columns)})
    stored = there_and_back(client, service, frame)
    if stored is not None:
        for name in frame.columns:
            found, wanted = as_python(stored[name], frame[name])
            assert len(found) == len(wanted)
            assert all(map(same, found, wanted)), (name, frame[name].dtype, found, wanted)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_moments_of_every_unit_come_back_to_the_last_digit(client, service, unit):
    ends = [np.datetime64(sign * (2**62), unit) for sign in (-1, 1)] if unit == "ns" else []
    values = np.array([0, 1, -1, 10**9 + 1, *ends], dtype=f"datetime64[{unit}]")
    stored = there_and_back(client, service, pd.DataFrame({"t": values}))
    assert stored["t"].type == pa.timestamp(unit)
    assert stored["t"].cast(pa.int64()).to_pylist() == values.astype("int64").tolist()


def array_of(kind: str, seed: int, rows: int) -> pa.Array:
    """Give rows of a layout, other ones for each seed; every third is null."""
    words = [
        None if (seed + i) % 3 == 0 else f"word {seed * i % 5} that may lie outside of a view" for i in range(rows)
    ]
    views = pa.array(words, pa.string_view())
    return {
        "text": lambda: pa.array(words, pa.string()),
        "views": lambda: views,
        "numbers": lambda: pa.array([word and len(word) * seed for word in words], pa.int64()),
        "coded": lambda: pa.array(words, pa.string()).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string())),
        "coded days": lambda: pa.array([w and seed + i for i, w in enumerate(words)], pa.date32()).dictionary_encode(),
        "own": lambda: pa.ExtensionArray.from_storage(Own(pa.string_view()), views),
        "JSON": lambda: pa.ExtensionArray.from_storage(pa.json_(pa.string_view()), views),
        "UUIDs": lambda: pa.array([word and bytes([seed % 256] * 16) for word in words], pa.uuid()),
        "runs": lambda: pa.RunEndEncodedArray.from_arrays(
            pa.array(range(1, rows + 1), pa.int32()), pa.array(words, pa.string())
        ),
    }[kind]()


def nested_array(layers: list[str], kind: str, seed: int, rows: int) -> pa.Array:
    """Give an array of lists, structs or maps, the outermost first, with a null and an empty one among them."""
    if not layers:
        return array_of(kind, seed, rows)
    layer, *inner = layers
    made = nested_array(inner, kind, seed, 2 * rows)
    ends = [None if i < rows and (seed + i) % 4 == 0 else 2 * i for i in range(rows + 1)]
    offsets = pa.array(ends, pa.int32())
    return {
        "list": lambda: pa.ListArray.from_arrays(offsets, made),
        "large list": lambda: pa.LargeListArray.from_arrays(offsets.cast(pa.int64()), made),
        "array": lambda: pa.FixedSizeListArray.from_arrays(made, 2),
        "struct": lambda: pa.StructArray.from_arrays([made[:rows], made[rows:]], ["x", "y"]),
        "map": lambda: pa.MapArray.from_arrays(offsets, pa.array([f"k{i}" for i in range(2 * rows)]), made),
        "view": lambda: pa.ListViewArray.from_arrays([2 * i for i in reversed(range(rows))], [2] * rows, made),
    }[layer]()


KINDS = ["text", "views", "numbers", "coded", "coded days", "own", "JSON", "UUIDs", "runs"]
LAYERS = ["list", "large list", "array", "struct", "map", "view"]


@st.composite
def arrow_columns(draw: st.DrawFn) -> pa.ChunkedArray:
    """Draw chunks of one type, each with dictionaries of its own; some are empty, some are slices."""
    layers, kind = draw(st.lists(st.sampled_from(LAYERS), max_size=2)), draw(st.sampled_from(KINDS))
    chunks = []
    for seed in draw(st.lists(st.integers(0, 20), min_size=1, max_size=4)):
        rows = draw(st.integers(1, 5))
        start = draw(st.integers(0, rows))
        chunks.append(nested_array(layers, kind, seed, rows).slice(start, draw(st.integers(0, rows))))
    return pa.chunked_array(chunks)


@uploading
@given(column=arrow_columns(), seed=st.integers(0, 9))
def test_every_arrow_column_comes_back_equal_whatever_its_layout_chunks_and_codecs(client, service, column, seed):
    table, wanted = pa.table({"c": column}), repr(column.to_pylist())
    if (dtypes := offered_dtypes(table)) is None:
        return
    stream = IPCStream(open_source(table, dtypes=dtypes), AtWill(seed))
    body = b"".join(bytes(buffer) for buffers in stream for buffer in buffers)
    assert repr(pa.ipc.open_stream(body).read_all()["c"].to_pylist()) == wanted
    stored = there_and_back(client, service, table, dtypes=dtypes)
    if stored is not None:
        assert repr(stored["c"].to_pylist()) == wanted


cells = st.one_of(
    text, whole, st.booleans(), st.binary(max_size=3), st.dates(), st.datetimes(), st.floats(allow_nan=False),
    moments.map(lambda m: m.replace(tzinfo=dt.UTC)), moments.map(lambda m: pd.Timestamp(m) + pd.Timedelta(1, "ns")),
    st.integers(-(10**9), 10**9).map(lambda n: np.timedelta64(n, "ms")),
    st.integers(0, 10**9).map(lambda n: np.datetime64(n, "s")),
    st.sampled_from([None, pd.NA, pd.NaT, float("nan"), np.datetime64("NaT", "s"), np.timedelta64("NaT", "s")]),
    hnp.arrays(st.sampled_from([">i4", "i8", "f4", "M8[ms]", "m8[s]", "M8[D]"]), st.integers(0, 3)).map(
        lambda array: np.nan_to_num(array) if array.dtype.kind == "f" else array
    ),
    st.lists(whole, max_size=3).map(lambda some: np.ma.array(some, mask=[i % 2 for i in range(len(some))], dtype="i8")),
)  # fmt: skip
nested_cells = st.recursive(cells, lambda c: st.lists(c, max_size=3) | st.fixed_dictionaries({"a": c}), max_leaves=4)


@uploading
@given(one=nested_cells, others=st.lists(nested_cells, max_size=2), copies=st.integers(1, 3))
def test_every_column_of_objects_comes_back_equal_or_is_refused_by_column(client, service, one, others, copies):
    frame = pd.DataFrame({"c0": objects_column([one] * copies + others)})
    stored = there_and_back(client, service, frame)
    if stored is not None:
        assert all(map(same, stored["c0"].to_pylist(), frame["c0"].tolist())), (stored["c0"], frame["c0"].tolist())


def struct_of(**fields: object) -> pa.Array:
    return pa.StructArray.from_arrays(list(fields.values()), list(fields))


ONES, NULLS = pa.array([1, None]), pa.nulls(2)
FITS = {
    "fields in another order": (struct_of(a=ONES, b=ONES), struct_of(b=NULLS, a=ONES)),
    "an empty list": (pa.array([[1], None]), pa.array([[], None])),
    "an empty list of structs": (pa.array([[{"a": [1]}]]), pa.array([[{"a": []}], []])),
    "a list of nulls": (pa.array([[1]], pa.large_list(pa.int64())), pa.array([[None]])),
    "coded text": (struct_of(a=pa.array(["x"]).dictionary_encode()), struct_of(a=pa.array(["y"], pa.string_view()))),
    "coded text that is null": (struct_of(a=pa.array(["x"]).dictionary_encode()), struct_of(a=pa.nulls(1))),
    "a map of nothing": (
        pa.array([[("a", [1])]], pa.map_(pa.string(), pa.list_(pa.int8()))),
        pa.array([[("b", [])], None], pa.map_(pa.string(), pa.list_(pa.null()))),
    ),
    "coded nulls": (ONES, pa.DictionaryArray.from_arrays(pa.array([None], pa.int8()), pa.nulls(1))),
}


@pytest.mark.parametrize("columns", FITS.values(), ids=FITS)
def test_what_fits_into_the_first_frame_is_taken_from_later_ones(client, service, columns):
    stored = there_and_back(client, service, [pa.table({"c": column}) for column in columns])
    assert stored["c"].to_pylist() == [value for column in columns for value in column.to_pylist()]


FITS_NOT = {
    "a field less": (struct_of(a=ONES, b=ONES), struct_of(a=ONES)),
    "another field": (struct_of(a=ONES), struct_of(b=ONES)),
    "other numbers": (struct_of(a=ONES), struct_of(a=ONES.cast("int8"))),
    "text in lists": (pa.array([[1]]), pa.array([["x"]])),
    "lists of a fixed size": (pa.array([[1]]), pa.array([[1]], pa.list_(pa.int64(), 1))),
    "a list for a number": (ONES, pa.array([[], []])),
}


@pytest.mark.parametrize("columns", FITS_NOT.values(), ids=FITS_NOT)
def test_what_does_not_fit_into_the_first_frame_is_refused_by_column_and_item(client, columns):
    with pytest.raises(UnsupportedTypeError, match=r"'c' is .* in item 1 and .* in the first one"):
        client.create_table("never", [pa.table({"c": column}) for column in columns])
    assert "never" not in client.list_tables()


def test_a_null_in_a_later_frame_is_refused_where_the_first_one_says_that_there_is_none():
    required = pa.struct([pa.field("a", pa.int64(), nullable=False)])
    later = pa.table({"c": struct_of(a=ONES)})
    with pytest.raises(UnsupportedTypeError, match=r"'c.a' has nulls"):
        list(open_source([pa.table({"c": pa.array([{"a": 1}], required)}), later]).batches())


@pytest.mark.parametrize(
    "column",
    [
        pa.FixedSizeListArray.from_arrays(pa.array(["a", None]), 2),
        pa.FixedSizeListArray.from_arrays(pa.array(["a", None]).dictionary_encode(), 2),
        pa.FixedSizeListArray.from_arrays(pa.array([bytes(16), None], pa.uuid()), 2),
        pa.FixedSizeListArray.from_arrays(struct_of(a=ONES), 2),
        pa.FixedSizeListArray.from_arrays(pa.FixedSizeListArray.from_arrays(pa.array([b"a", b"b"]), 1), 2),
        struct_of(a=pa.FixedSizeListArray.from_arrays(pa.array(["a", None]), 2)),
        pl.Series([["a", "b"], None], dtype=pl.Array(pl.String, 2)),
    ],
    ids=lambda column: str(getattr(column, "type", "Polars")),
)
def test_lists_of_a_fixed_size_that_no_table_holds_are_stored_as_the_refusal_advises(
    remote, server, client, service, column
):
    frame = column.to_frame("c") if isinstance(column, pl.Series) else pa.table({"c": column})
    with pytest.raises(UnsupportedTypeError, match=r"'c.*: tables cannot hold fixed_size_list<.*; pass dtypes="):
        remote.create_table("t", frame)
    assert server.requests == []
    stored = there_and_back(client, service, frame, dtypes=offered_dtypes(frame))
    assert stored["c"].to_pylist() == (column.to_list() if isinstance(column, pl.Series) else column.to_pylist())


@pytest.mark.parametrize("view", [pa.string_view(), pa.binary_view(), pa.list_view(pa.string_view())], ids=str)
def test_views_in_pandas_frames_are_sent(client, service, view):
    values = pa.array([["a"], None] if pa.types.is_list_view(view) else ["a", None], view)
    frame = pd.DataFrame({"c": pd.arrays.ArrowExtensionArray(pa.chunked_array([values]))})
    assert there_and_back(client, service, frame)["c"].to_pylist() == values.to_pylist()


def test_map_keys_without_a_type_are_refused_by_column(client):
    nothing = pa.dictionary(pa.int8(), pa.null())
    keyless = pa.nulls(1, pa.struct([("m", pa.map_(nothing, pa.int8()))]))
    with pytest.raises(UnsupportedTypeError, match=r"'c.m': .*keys have no type"):
        client.create_table("never", pa.table({"c": keyless}))
