"""A pandas frame → a `Source`, column by column and slice by slice.

pandas' own ways to Arrow are not taken: they name the index by what the data look like and add metadata that carries
library versions. Here a column's Arrow type depends on its dtype alone; only ``object``, which says nothing, is told
from the values. What pandas itself calls missing (NaN, NaT, NA, None) is null.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from rt_frames._frames.source import Chunk, Source
from rt_frames._names import check_column_names
from rt_frames._schema.dtype import to_arrow_type
from rt_frames._text import list_names
from rt_frames.errors import UnsupportedTypeError

_CONVERSION_ERRORS = (pa.ArrowException, ValueError, TypeError, OverflowError)

# a column's size in bytes, and what cuts rows ``start:stop`` out of it; these may still be laid out differently
_Column = tuple[int, Callable[[int, int], pa.Array]]


def open_pandas(frame: pd.DataFrame, casts: Mapping[str, pa.DataType], index: bool | None) -> Source:
    """Open a frame; the chosen index levels come first."""
    names, levels = _names_and_levels(frame, index)
    series = [*levels, *(series for _, series in frame.items())]
    schema = _schema(names, [s.dtype for s in series], series.__getitem__, casts)
    columns = [_column(name, s, arrow) for name, s, arrow in zip(names, series, schema.types, strict=True)]

    def cut(start: int, length: int) -> list[pa.RecordBatch]:
        return [pa.RecordBatch.from_arrays([column(start, start + length) for _, column in columns], names=names)]

    chunk = Chunk(len(frame), sum(size for size, _ in columns), cut)
    objects = frozenset(name for name, s in zip(names, series, strict=True) if _is_object(s.dtype))
    return Source(schema, lambda: [chunk], chunk.rows, chunk.nbytes, zero_copy=not objects, value_checked=objects)


def arrow_schema(frame: pd.DataFrame) -> pa.Schema:
    """Give the schema alone; only ``object`` columns are looked into."""
    names, levels = _names_and_levels(frame, None)

    def series(i: int) -> pd.Series[Any]:
        return levels[i] if i < len(levels) else frame.iloc[:, i - len(levels)]

    return _schema(names, [*(level.dtype for level in levels), *frame.dtypes], series, {})


def _names_and_levels(frame: pd.DataFrame, index: bool | None) -> tuple[list[str], list[pd.Series[Any]]]:
    """Name the columns, and give those that are levels of the index, which come first."""
    found = list(frame.index.names)
    levels = [] if index is False else [i for i, name in enumerate(found) if index or name is not None]
    if levels and found == [None]:
        labels: list[Any] = ["level_0" if "index" in frame.columns else "index"]
    else:
        labels = [f"level_{i}" if found[i] is None else found[i] for i in levels]
    labels = [*labels, *frame.columns]
    if odd := [label for label in labels if not isinstance(label, str)]:
        raise ValueError(
            f"column labels must be strings; these are not: {list_names(odd)}; "
            "give them names first, for example df.rename(columns=str)"
        )
    check_column_names(labels, "rename one; named index levels count, index=False leaves them out")
    return labels, [pd.Series(frame.index.get_level_values(i)) for i in levels]


def _schema(
    names: list[str], dtypes: Iterable[Any], series: Callable[[int], pd.Series[Any]], casts: Mapping[str, pa.DataType]
) -> pa.Schema:
    """Tell the types, each dtype's once; ``series`` gives the columns of those that do not say."""
    known: dict[Any, pa.DataType] = {}
    types = []
    for i, (name, dtype) in enumerate(zip(names, dtypes, strict=True)):
        if _is_object(dtype):
            types.append(_infer(name, series(i).to_numpy(), casts.get(name)))
            continue
        key = id(dtype) if isinstance(dtype, pd.CategoricalDtype) else dtype  # whose hash is that of all its values
        if key not in known:
            known[key] = to_arrow_type(dtype, name)
        types.append(known[key])
    return pa.schema(list(zip(names, types, strict=True)))


def _is_object(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind == "O"


def _column(name: str, series: pd.Series[Any], arrow: pa.DataType) -> _Column:
    dtype = series.dtype
    if isinstance(dtype, np.dtype):
        values = series.to_numpy()
        return _object_column(name, values, arrow) if dtype.kind == "O" else _numpy_column(values)
    if isinstance(dtype, pd.ArrowDtype) or (isinstance(dtype, pd.StringDtype) and dtype.storage != "python"):
        return _arrow_column(series.array.__arrow_array__())
    return int(series.memory_usage(index=False)), lambda a, b: pa.array(series.iloc[a:b], from_pandas=True)


def _numpy_column(values: np.ndarray[Any, Any]) -> _Column:
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    has_nan: dict[tuple[int, int], bool] = {}  # the length is counted before the sending: one look is enough

    def cut(start: int, stop: int) -> pa.Array:
        piece = np.ascontiguousarray(values[start:stop])
        if (start, stop) not in has_nan:
            has_nan[start, stop] = _may_have_nan(piece)
        return pa.array(piece, from_pandas=has_nan[start, stop])

    return values.nbytes, cut


def _may_have_nan(values: np.ndarray[Any, Any]) -> bool:
    """Look for NaN at the speed of memory: one NaN makes a minimum NaN. A dot product would wake BLAS's threads."""
    if values.dtype not in (np.float32, np.float64):
        return values.dtype.kind in "fmM"
    return len(values) > 0 and bool(np.isnan(values.min()))


def _arrow_column(chunks: pa.ChunkedArray) -> _Column:
    def cut(start: int, stop: int) -> pa.Array:
        piece = chunks.slice(start, stop - start)
        return piece.chunk(0) if piece.num_chunks == 1 else piece.combine_chunks()

    return int(chunks.nbytes), cut


def _object_column(name: str, values: np.ndarray[Any, Any], arrow: pa.DataType) -> _Column:
    def cut(start: int, stop: int) -> pa.Array:
        try:
            return pa.array(values[start:stop], type=arrow, from_pandas=True)
        except _CONVERSION_ERRORS as error:
            raise _find_misfit(name, values, start, stop, arrow) from error

    return values.nbytes * 8, cut


def _find_misfit(
    name: str, values: np.ndarray[Any, Any], start: int, stop: int, arrow: pa.DataType
) -> UnsupportedTypeError:
    """Find the row that does not convert."""
    for row in range(start, stop):
        try:
            pa.array(values[row : row + 1], type=arrow, from_pandas=True)
        except _CONVERSION_ERRORS as error:
            return UnsupportedTypeError(
                f"column {name!r}, row {row}: {values[row]!r:.80} does not become {arrow} ({str(error)[:200]}); "
                "correct the value or convert the column first"
            )
    return UnsupportedTypeError(f"column {name!r}, rows {start} to {stop}: the values do not become {arrow}")


def _infer(name: str, values: np.ndarray[Any, Any], cast: pa.DataType | None) -> pa.DataType:
    """Tell an object column's type from its values, which must be of one kind; else it is what the caller asked for."""
    present = _drop_missing(name, values)
    if len(present) == 0:
        return pa.null() if cast is None else cast
    kind = _kind(present[0])
    other = _find_other_kind(kind, present)
    if other is not None:
        if cast is not None:
            return cast
        row = next(i for i, value in enumerate(values) if value is other)
        raise UnsupportedTypeError(
            f"column {name!r} mixes kinds: its first value is {kind}, row {row} is {_kind(other)} ({other!r:.40}); "
            f"make it one kind first, for example df[{name!r}].astype(str)"
        )
    try:
        found = to_arrow_type(_infer_one_kind(kind, present), name)
    except UnsupportedTypeError:
        raise
    except _CONVERSION_ERRORS as error:
        if cast is not None:
            return cast
        raise UnsupportedTypeError(
            f"column {name!r} holds {kind} values for which Arrow has no type ({str(error)[:200]}); convert them first"
        ) from error
    return pa.large_string() if pa.types.is_string(found) else found


def _drop_missing(name: str, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Leave out what pandas calls missing."""
    try:
        missing = pd.isna(values)
    except ArithmeticError as error:
        row = next(i for i, value in enumerate(values) if isinstance(value, decimal.Decimal) and value.is_snan())
        raise UnsupportedTypeError(
            f"column {name!r}, row {row}: a signalling NaN cannot be sent; replace it, for example with None"
        ) from error
    return values[~missing]  # type: ignore[no-any-return]  # the stubs do not say what an index array gives


def _infer_one_kind(kind: str, present: np.ndarray[Any, Any]) -> pa.DataType:
    found = pa.infer_type(present, from_pandas=True)
    # Arrow infers microseconds; pandas' own scalars may hold nanoseconds
    if kind.startswith("datetime ") and any(getattr(value, "nanosecond", 0) for value in present):
        return pa.timestamp("ns", found.tz)
    if kind == "timedelta" and any(getattr(value, "nanoseconds", 0) for value in present):
        return pa.duration("ns")
    return found


def _find_other_kind(kind: str, present: np.ndarray[Any, Any]) -> Any:
    """Find the first value that is not of this kind; None where all are."""
    if not kind.startswith("datetime ") and {_kind_of_type(t) for t in set(map(type, present))} == {kind}:
        return None
    return next((value for value in present if _kind(value) != kind), None)


def _kind(value: Any) -> str:
    kind = _kind_of_type(type(value))
    if kind == "datetime":
        return "datetime with a time zone" if value.tzinfo else "datetime without a time zone"
    return kind


# subclasses before what they are made of: NumPy's timedelta64 is one of its integers
_KINDS: dict[str, tuple[type, ...]] = {
    "bool": (bool, np.bool_),
    "timedelta": (datetime.timedelta, np.timedelta64),
    "int": (int, np.integer),
    "float": (float, np.floating),
    "list": (list, tuple, np.ndarray),
    "str": (str,),
    "bytes": (bytes,),
    "datetime": (datetime.datetime,),
    "date": (datetime.date,),
    "time": (datetime.time,),
    "Decimal": (decimal.Decimal,),
    "dict": (dict,),
}


def _kind_of_type(kind: type) -> str:
    """Name a Python type, NumPy's scalars by the Python type they stand for."""
    return next((name for name, types in _KINDS.items() if issubclass(kind, types)), kind.__name__)
