"""A pandas frame → `Rows`, column by column and slice by slice.

pandas' own conversions to Arrow are not used: they name the index by the data and add
metadata with library versions. Here a column's Arrow type depends on its dtype alone;
only for ``object`` it is inferred from the values. Values that pandas calls missing
(NaN, NaT, NA, None) become null.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from rt_frames._frames.open_options import OpenOptions
from rt_frames._names import check_column_names, clean_names, name_error
from rt_frames._schema.data_type import contains, show_type
from rt_frames._schema.numpy_dtype import numpy_to_arrow
from rt_frames._schema.objects import ObjectType, infer, to_arrow
from rt_frames._schema.pandas_dtype import pandas_to_arrow
from rt_frames._schema.portable import CONVERSION_ERRORS, to_portable
from rt_frames._stream.batching import Chunk, nbytes
from rt_frames._stream.source import Rows
from rt_frames._text import list_names, show_value
from rt_frames._values.exact_cast import InexactCast, RefusedCast, cast_objects
from rt_frames._values.failing_row import first_failing_row
from rt_frames._values.refusals import Refusals
from rt_frames.errors import UnsupportedTypeError

# values of an object column that estimate its size
_SAMPLED = 256


class _Column(NamedTuple):
    """A column's size in bytes, and the function that slices its rows."""

    nbytes: int
    slice_rows: Callable[[int, int], Any]


class _ObjectCast(NamedTuple):
    """The type that the caller wants objects of several types cast to."""

    arrow: pa.DataType


_Target = ObjectType | _ObjectCast


def open_frame(frame: pd.DataFrame, options: OpenOptions, refusals: Refusals) -> Rows:
    """Open a frame. Index levels that are sent come first."""
    names, levels = _names_and_levels(frame, options, refusals)
    series = [*levels]
    series.extend(column for _, column in frame.items())
    dtypes = [column.dtype for column in series]
    targets = _targets(names, dtypes, series.__getitem__, options.casts, refusals)
    columns: dict[str, _Column] = {}
    objects = set()
    for name, values, target in zip(names, series, targets, strict=True):
        if _holds_objects(values.dtype):
            objects.add(name)
        if name not in refusals:
            try:
                columns[name] = _column(name, values, target)
            except UnsupportedTypeError as error:
                refusals.setdefault(name, error)
    chunk = _chunk(len(frame), columns)
    return Rows(
        _schema(names, targets),
        lambda: [chunk],
        chunk.rows,
        chunk.nbytes,
        zero_copy=not objects,
        value_checked=frozenset(objects),
    )


def _chunk(rows: int, columns: dict[str, _Column]) -> Chunk:
    def make_batches(
        start: int, length: int, chosen: list[str] | None
    ) -> list[pa.RecordBatch]:
        names = [*columns] if chosen is None else chosen
        stop = start + length
        arrays = [columns[name].slice_rows(start, stop) for name in names]
        # more text than fits into one Arrow array
        if any(isinstance(array, pa.ChunkedArray) for array in arrays):
            return pa.table(arrays, names).to_batches()  # type: ignore[no-any-return]  # pyarrow has no stubs
        return [pa.RecordBatch.from_arrays(arrays, names=names)]

    size = sum(column.nbytes for column in columns.values())
    return Chunk(rows, size, make_batches)


def arrow_schema(
    frame: pd.DataFrame, options: OpenOptions, refusals: Refusals
) -> pa.Schema:
    """Return the schema. Only values of ``object`` columns are read."""
    names, levels = _names_and_levels(frame, options, refusals)
    dtypes = [level.dtype for level in levels]
    dtypes.extend(frame.dtypes)

    def series(number: int) -> pd.Series[Any]:
        if number < len(levels):
            return levels[number]
        return frame.iloc[:, number - len(levels)]

    targets = _targets(names, dtypes, series, options.casts, refusals)
    return _schema(names, targets)


def _schema(names: list[str], targets: list[_Target]) -> pa.Schema:
    arrows = [target.arrow for target in targets]
    return pa.schema(list(zip(names, arrows, strict=True)))


def _names_and_levels(
    frame: pd.DataFrame, options: OpenOptions, refusals: Refusals
) -> tuple[list[str], list[pd.Series[Any]]]:
    """Return the names of all columns, and the index levels among the columns."""
    keeps_index = options.keep_index
    if keeps_index is None:
        keeps_index = not _is_row_number_index(frame.index)
    labels: list[Any] = []
    levels = []
    if keeps_index:
        for number, label in enumerate(_level_labels(frame)):
            labels.append(label)
            levels.append(pd.Series(frame.index.get_level_values(number)))
    labels.extend(frame.columns)
    if options.clean:
        labels = clean_names(labels)
    odd = [label for label in labels if not isinstance(label, str)]
    if odd:
        raise ValueError(
            name_error(f"column labels must be strings, unlike {list_names(odd)}")
        )
    note = " (including index levels, which index=False leaves out)"
    check_column_names(labels, note if levels else "")
    refusals.levels.update(labels[: len(levels)])
    return labels, levels


def _level_labels(frame: pd.DataFrame) -> list[Any]:
    """Return the labels of index levels, those without a name as pandas resets them.

    pandas resets an index beside a column "index" to "level_0"; here no name depends
    on other columns.
    """
    labels = frame.index.names
    if not isinstance(frame.index, pd.MultiIndex) and labels[0] is None:
        return ["index"]
    return [
        f"level_{number}" if label is None else label
        for number, label in enumerate(labels)
    ]


def _is_row_number_index(index: pd.Index[Any]) -> bool:
    """Return whether an index only counts rows. Names and levels are data."""
    if index.nlevels > 1 or index.name is not None:
        return False
    dtype = index.dtype
    if not isinstance(dtype, pd.ArrowDtype):
        return pd.api.types.is_integer_dtype(dtype)
    # pandas cannot classify views and run-ends (pandas 3.1)
    arrow = dtype.pyarrow_dtype
    if pa.types.is_run_end_encoded(arrow):
        arrow = arrow.value_type
    return bool(pa.types.is_integer(arrow))


def _targets(
    names: list[str],
    dtypes: list[Any],
    series: Callable[[int], pd.Series[Any]],
    casts: Mapping[str, pa.DataType],
    refusals: Refusals,
) -> list[_Target]:
    """Return the columns' types.

    ``series`` returns a column by number, to read the values of objects.
    """
    targets: list[_Target] = []
    for number, (name, dtype) in enumerate(zip(names, dtypes, strict=True)):
        target: _Target = ObjectType(pa.null())
        try:
            if isinstance(dtype, np.dtype) and dtype.kind == "O":
                target = _infer(name, series(number).to_numpy(), casts.get(name))
            elif isinstance(dtype, np.dtype):
                target = ObjectType(numpy_to_arrow(dtype, name))
            elif _is_exported(dtype):
                exported = pa.array(series(number).array)
                target = ObjectType(to_portable(exported.type, name))
            else:
                target = ObjectType(pandas_to_arrow(dtype, name))
        except UnsupportedTypeError as error:
            refusals.setdefault(name, error)
        targets.append(target)
    return targets


def _is_exported(dtype: Any) -> bool:
    """Return whether only the arrays of a dtype know its Arrow type."""
    library = type(dtype).__module__.partition(".")[0]
    is_known = library in ("pandas", "geopandas") or hasattr(dtype, "numpy_dtype")
    return not is_known and hasattr(dtype.construct_array_type(), "__arrow_array__")


def _holds_objects(dtype: Any) -> bool:
    if isinstance(dtype, np.dtype):
        return dtype.kind == "O"
    return isinstance(dtype, pd.StringDtype) and dtype.storage == "python"


def _column(name: str, series: pd.Series[Any], target: _Target) -> _Column:
    dtype = series.dtype
    if _holds_objects(dtype):
        return _object_column(name, series.to_numpy(dtype=object), target)
    if isinstance(dtype, np.dtype):
        return _numpy_column(series.to_numpy())
    if isinstance(dtype, pd.ArrowDtype | pd.StringDtype):
        return _arrow_column(series.array.__arrow_array__())
    if isinstance(dtype, pd.CategoricalDtype):
        return _categorical_column(name, series)

    def slice_rows(start: int, stop: int) -> Any:
        return pa.array(series.iloc[start:stop], from_pandas=True)

    return _Column(int(series.memory_usage(index=False)), slice_rows)


def _categorical_column(name: str, series: pd.Series[Any]) -> _Column:
    codes = series.cat.codes.to_numpy()
    values = series.cat.categories
    if _holds_objects(values.dtype):
        objects = values.to_numpy(dtype=object)
        target = infer(name, objects)
        place = f"{name} (its categories)"
        dictionary = _convert(place, objects, 0, len(objects), target)
    else:
        dictionary = pa.array(values, from_pandas=True)
    if isinstance(dictionary, pa.ChunkedArray):
        dictionary = dictionary.combine_chunks()

    def slice_rows(start: int, stop: int) -> pa.Array:
        piece = codes[start:stop]
        mask = None
        if len(piece) and piece.min() < 0:
            mask = piece < 0
        indices = pa.array(piece, mask=mask)
        # `Dictionaries.unify` checks the codes
        return pa.DictionaryArray.from_arrays(indices, dictionary, safe=False)

    # codes are sent as 32 bits
    return _Column(4 * len(codes), slice_rows)


def _numpy_column(values: np.ndarray[Any, Any]) -> _Column:
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    # a large body is sliced twice: to count its bytes, and to send it
    has_nan: dict[tuple[int, int], bool] = {}

    def slice_rows(start: int, stop: int) -> pa.Array:
        piece = np.ascontiguousarray(values[start:stop])
        if (start, stop) not in has_nan:
            has_nan[start, stop] = _may_have_nan(piece)
        return pa.array(piece, from_pandas=has_nan[start, stop])

    return _Column(values.nbytes, slice_rows)


def _may_have_nan(values: np.ndarray[Any, Any]) -> bool:
    """Return whether values may hold NaN, at the speed of memory.

    One NaN makes the minimum NaN. A dot product would wake BLAS's threads.
    """
    if values.dtype not in (np.float32, np.float64):
        return values.dtype.kind in "fmM"
    return len(values) > 0 and bool(np.isnan(values.min()))


def _arrow_column(chunks: pa.ChunkedArray) -> _Column:
    # Arrow cannot unify some dictionaries, and those of float16 become integers
    # (pyarrow 26)
    has_dictionaries = contains(chunks.type, pa.types.is_dictionary)

    def slice_rows(start: int, stop: int) -> pa.Array:
        piece = chunks.slice(start, stop - start)
        if piece.num_chunks == 1:
            return piece.chunk(0)
        return piece if has_dictionaries else piece.combine_chunks()

    return _Column(nbytes(chunks), slice_rows)


def _object_column(name: str, values: np.ndarray[Any, Any], target: _Target) -> _Column:
    sample = values[:: max(1, len(values) // _SAMPLED)]
    size = 0
    # `_convert` reports errors, with their row
    with contextlib.suppress(*CONVERSION_ERRORS):
        sampled = _to_arrow(name, sample, target).nbytes
        size = sampled * len(values) // max(len(sample), 1)

    # rows are converted before sending, to check them: once is enough
    @functools.cache
    def slice_rows(start: int, stop: int) -> Any:
        return _convert(name, values, start, stop, target)

    return _Column(max(size, values.nbytes), slice_rows)


def _convert(
    name: str, values: np.ndarray[Any, Any], start: int, stop: int, target: _Target
) -> Any:
    piece = values[start:stop]
    try:
        return _to_arrow(name, piece, target)
    except CONVERSION_ERRORS as error:

        def convert(first: int, last: int) -> Any:
            return _to_arrow(name, piece[first:last], target)

        row, reason = first_failing_row(len(piece), convert, error)
        place = f"rows {start} to {stop}"
        subject = "the values"
        if row is not None:
            place = f"row {start + row}"
            subject = show_value(piece[row])
        failure = _describe_failure(name, target.arrow, reason)
        raise UnsupportedTypeError(
            f"column {name!r}, {place}: {subject} {failure}"
        ) from error


def _describe_failure(name: str, target: pa.DataType, reason: Exception) -> str:
    if isinstance(reason, RefusedCast):
        return f"cannot be cast to {show_type(target)}: {reason}"
    cure = "correct the value or convert the column first"
    if isinstance(reason, InexactCast):
        return f"cannot be stored exactly as {show_type(target)}; {cure}"
    why = str(reason).removeprefix(f"column {name!r}, row 0: ")[:200]
    # Arrow writes of a cast that did not happen as if it had (pyarrow 26)
    why = why.replace("was truncated", "would be truncated")
    return f"cannot be converted to {show_type(target)} ({why}); {cure}"


def _to_arrow(name: str, values: np.ndarray[Any, Any], target: _Target) -> Any:
    if isinstance(target, ObjectType):
        return to_arrow(values, target)
    return cast_objects(
        values, target.arrow, lambda alike: to_arrow(alike, infer(name, alike))
    )


def _infer(
    name: str, values: np.ndarray[Any, Any], cast: pa.DataType | None
) -> _Target:
    """Infer an object column's type from its values.

    They must be of one type, unless the caller wants them cast.
    """
    if cast is None:
        return infer(name, values)
    if not pa.types.is_nested(cast):
        return _ObjectCast(cast)
    try:
        inferred = infer(name, values)
    except UnsupportedTypeError:
        if not contains(cast, pa.types.is_map):
            raise
        # a map's pairs of key and value have two types
        return ObjectType(cast, arrow_converts=False)
    return ObjectType(cast) if pa.types.is_null(inferred.arrow) else inferred
