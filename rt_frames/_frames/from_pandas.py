"""A pandas frame → a `Source`, column by column and slice by slice.

pandas' own ways to Arrow are not taken: they name the index by what the data look like and add metadata that carries
library versions. Here a column's Arrow type depends on its dtype alone; only ``object``, which says nothing, is told
from the values. What pandas itself calls missing (NaN, NaT, NA, None) is null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from rt_frames._frames.source import Chunk, Source
from rt_frames._names import check_column_names
from rt_frames._schema.dtype import to_arrow_type
from rt_frames._schema.objects import CONVERSION_ERRORS, ObjectType, infer, to_arrow
from rt_frames._text import list_names, show_value
from rt_frames.errors import UnsupportedTypeError

_SAMPLED = 256  # values of an object column, whose size they tell

# a column's size in bytes, and what cuts rows ``start:stop`` out of it; these may still be laid out differently
_Column = tuple[int, Callable[[int, int], pa.Array]]


def open_pandas(frame: pd.DataFrame, casts: Mapping[str, pa.DataType], index: bool | None) -> Source:
    """Open a frame; the chosen index levels come first."""
    names, levels = _names_and_levels(frame, index)
    series = [*levels, *(series for _, series in frame.items())]
    types = _types(names, [s.dtype for s in series], series.__getitem__, casts)
    columns = [_column(name, s, target) for name, s, target in zip(names, series, types, strict=True)]

    def cut(start: int, length: int) -> list[pa.RecordBatch]:
        arrays = [column(start, start + length) for _, column in columns]
        if any(isinstance(array, pa.ChunkedArray) for array in arrays):  # more text than Arrow keeps in one array
            return pa.table(arrays, names).to_batches()  # type: ignore[no-any-return]  # pyarrow has no stubs
        return [pa.RecordBatch.from_arrays(arrays, names=names)]

    chunk = Chunk(len(frame), sum(size for size, _ in columns), cut)
    objects = frozenset(
        n for n, s in zip(names, series, strict=True) if _is_object(s.dtype) or _is_python_text(s.dtype)
    )
    schema = pa.schema([(name, target.arrow) for name, target in zip(names, types, strict=True)])
    return Source(schema, lambda: [chunk], chunk.rows, chunk.nbytes, zero_copy=not objects, value_checked=objects)


def arrow_schema(frame: pd.DataFrame) -> pa.Schema:
    """Give the schema alone; only ``object`` columns are looked into."""
    names, levels = _names_and_levels(frame, None)

    def series(i: int) -> pd.Series[Any]:
        return levels[i] if i < len(levels) else frame.iloc[:, i - len(levels)]

    types = _types(names, [*(level.dtype for level in levels), *frame.dtypes], series, {})
    return pa.schema([(name, target.arrow) for name, target in zip(names, types, strict=True)])


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


def _types(
    names: list[str], dtypes: Iterable[Any], series: Callable[[int], pd.Series[Any]], casts: Mapping[str, pa.DataType]
) -> list[ObjectType]:
    """Tell the types, each dtype's once; ``series`` gives the columns of those that do not say."""
    known: dict[Any, ObjectType] = {}
    types = []
    for i, (name, dtype) in enumerate(zip(names, dtypes, strict=True)):
        if _is_object(dtype):
            types.append(_infer(name, series(i).to_numpy(), casts.get(name)))
            continue
        key = id(dtype) if isinstance(dtype, pd.CategoricalDtype) else dtype  # whose hash is that of all its values
        if key not in known:
            known[key] = ObjectType(to_arrow_type(dtype, name))
        types.append(known[key])
    return types


def _is_object(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind == "O"


def _column(name: str, series: pd.Series[Any], target: ObjectType) -> _Column:
    dtype = series.dtype
    if _is_object(dtype) or _is_python_text(dtype):
        return _object_column(name, series.to_numpy(dtype=object), target)
    if isinstance(dtype, np.dtype):
        return _numpy_column(series.to_numpy())
    if isinstance(dtype, pd.ArrowDtype | pd.StringDtype):
        return _arrow_column(series.array.__arrow_array__())
    if isinstance(dtype, pd.CategoricalDtype):
        return _categorical_column(name, series)
    return int(series.memory_usage(index=False)), lambda a, b: pa.array(series.iloc[a:b], from_pandas=True)


def _is_python_text(dtype: Any) -> bool:
    return isinstance(dtype, pd.StringDtype) and dtype.storage == "python"


def _categorical_column(name: str, series: pd.Series[Any]) -> _Column:
    codes, values = series.cat.codes.to_numpy(), series.cat.categories
    if _is_object(values.dtype) or _is_python_text(values.dtype):
        objects = values.to_numpy(dtype=object)
        dictionary = _convert(f"{name} (its categories)", objects, 0, len(objects), infer(name, objects))
    else:
        dictionary = pa.array(values, from_pandas=True)
    if isinstance(dictionary, pa.ChunkedArray):
        dictionary = dictionary.combine_chunks()

    def cut(start: int, stop: int) -> pa.Array:
        piece = codes[start:stop].astype(np.int32)
        return pa.DictionaryArray.from_arrays(pa.array(piece, mask=piece < 0), dictionary)

    return codes.nbytes, cut


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


def _object_column(name: str, values: np.ndarray[Any, Any], target: ObjectType) -> _Column:
    sample = values[:: max(1, len(values) // _SAMPLED)]
    nbytes = _convert(name, sample, 0, len(sample), target).nbytes * len(values) // max(len(sample), 1)
    return max(nbytes, values.nbytes), lambda start, stop: _convert(name, values, start, stop, target)


def _convert(name: str, values: np.ndarray[Any, Any], start: int, stop: int, target: ObjectType) -> Any:
    try:
        return to_arrow(values[start:stop], target)
    except CONVERSION_ERRORS as error:
        raise _find_misfit(name, values, start, stop, target) from error


def _find_misfit(
    name: str, values: np.ndarray[Any, Any], start: int, stop: int, target: ObjectType
) -> UnsupportedTypeError:
    """Find the row that does not convert."""
    for row in range(start, stop):
        try:
            to_arrow(values[row : row + 1], target)
        except CONVERSION_ERRORS as error:
            return UnsupportedTypeError(
                f"column {name!r}, row {row}: {show_value(values[row])} does not become {target.arrow} "
                f"({str(error)[:200]}); correct the value or convert the column first"
            )
    return UnsupportedTypeError(f"column {name!r}, rows {start} to {stop}: the values do not become {target.arrow}")


def _infer(name: str, values: np.ndarray[Any, Any], cast: pa.DataType | None) -> ObjectType:
    """Tell an object column's type from its values, which must be of one kind; else it is what the caller asked for."""
    try:
        found = infer(name, values)
    except UnsupportedTypeError:
        if cast is None:
            raise
        return ObjectType(cast)
    if cast is not None and found.arrow == pa.uuid() and pa.types.is_large_string(cast):
        return ObjectType(cast, as_they_are=False)  # Arrow would take the 16 bytes for text
    return ObjectType(cast) if cast is not None and pa.types.is_null(found.arrow) else found
