"""A pandas frame → a `Source`, column by column and slice by slice.

pandas' own conversions to Arrow are not used: they name the index by the data and add metadata with library versions.
Here a column's Arrow type depends on its dtype alone; only for ``object`` it is inferred from the values. Values that
pandas calls missing (NaN, NaT, NA, None) become null.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from rt_frames._frames.convert import contains, first_failing_row
from rt_frames._frames.exact_cast import cast_objects
from rt_frames._frames.refusals import Refusals
from rt_frames._frames.source import Chunk, Options, Source, nbytes
from rt_frames._names import check_column_names, not_a_name
from rt_frames._schema.numpy_dtype import from_numpy
from rt_frames._schema.objects import ObjectType, infer, to_arrow
from rt_frames._schema.pandas_dtype import from_pandas
from rt_frames._schema.portable import CONVERSION_ERRORS
from rt_frames._text import list_names, show_value
from rt_frames.errors import UnsupportedTypeError

# values of an object column that estimate its size
_SAMPLED = 256

# a column's size in bytes, and a function that slices rows ``start:stop``, whose layout may still differ
_Column = tuple[int, Callable[[int, int], pa.Array]]


class _Cast(NamedTuple):
    """What the caller wants a column of objects cast to, each as what it is: they may be of several kinds."""

    arrow: pa.DataType


_Target = ObjectType | _Cast


def open_frame(frame: pd.DataFrame, options: Options, refusals: Refusals) -> Source:
    """Open a frame; the chosen index levels come first."""
    names, levels = _names_and_levels(frame, options)
    refusals.levels.update(names[: len(levels)])
    series = [*levels, *(series for _, series in frame.items())]
    types = _types(
        names, [s.dtype for s in series], series.__getitem__, options.casts, refusals
    )
    columns: dict[str, _Column] = {}
    for name, one, target in zip(names, series, types, strict=True):
        if name not in refusals:
            with refusals.of(name):
                columns[name] = _column(name, one, target)

    def cut(start: int, length: int, chosen: list[str] | None) -> list[pa.RecordBatch]:
        wanted = names if chosen is None else chosen
        arrays = [columns[name][1](start, start + length) for name in wanted]
        # more text than fits into one Arrow array
        if any(isinstance(array, pa.ChunkedArray) for array in arrays):
            return pa.table(arrays, wanted).to_batches()  # type: ignore[no-any-return]  # pyarrow has no stubs
        return [pa.RecordBatch.from_arrays(arrays, names=wanted)]

    chunk = Chunk(len(frame), sum(size for size, _ in columns.values()), cut)
    objects = frozenset(
        name
        for name, one in zip(names, series, strict=True)
        if _holds_objects(one.dtype)
    )
    schema = pa.schema(
        [(name, target.arrow) for name, target in zip(names, types, strict=True)]
    )
    return Source(
        schema,
        lambda: [chunk],
        chunk.rows,
        chunk.nbytes,
        zero_copy=not objects,
        value_checked=objects,
    )


def arrow_schema(
    frame: pd.DataFrame, options: Options, refusals: Refusals
) -> pa.Schema:
    """Return the schema alone; only ``object`` columns are looked into."""
    names, levels = _names_and_levels(frame, options)
    refusals.levels.update(names[: len(levels)])

    def series(i: int) -> pd.Series[Any]:
        return levels[i] if i < len(levels) else frame.iloc[:, i - len(levels)]

    types = _types(
        names,
        [*(level.dtype for level in levels), *frame.dtypes],
        series,
        options.casts,
        refusals,
    )
    return pa.schema(
        [(name, target.arrow) for name, target in zip(names, types, strict=True)]
    )


def _names_and_levels(
    frame: pd.DataFrame, options: Options
) -> tuple[list[str], list[pd.Series[Any]]]:
    """Name the columns, and return those that are levels of the index, which come first."""
    found = list(frame.index.names)
    index = options.keep_index
    chosen = (
        ()
        if index is False or (index is None and _is_row_number_index(frame.index))
        else range(len(found))
    )
    if chosen and len(found) == 1 and found[0] is None:
        labels: list[Any] = ["level_0" if "index" in frame.columns else "index"]
    else:
        labels = [f"level_{i}" if found[i] is None else found[i] for i in chosen]
    labels = [*labels, *frame.columns]
    if options.clean:
        labels = options.clean(labels)
    if odd := [label for label in labels if not isinstance(label, str)]:
        raise ValueError(
            not_a_name(
                f"column labels must be strings; these are not: {list_names(odd)}"
            )
        )
    check_column_names(
        labels,
        "; levels of the index count, index=False leaves them out" if chosen else "",
    )
    return labels, [pd.Series(frame.index.get_level_values(i)) for i in chosen]


def _is_row_number_index(index: pd.Index[Any]) -> bool:
    """Return whether an index only counts the rows; names, dates, text and several levels are data."""
    if index.nlevels > 1 or index.name is not None:
        return False
    dtype = index.dtype
    if not isinstance(dtype, pd.ArrowDtype):
        return pd.api.types.is_integer_dtype(dtype)
    # of views and run-ends, pandas knows no kind
    arrow = dtype.pyarrow_dtype
    if pa.types.is_run_end_encoded(arrow):
        arrow = arrow.value_type
    return bool(pa.types.is_integer(arrow))


def _types(
    names: list[str],
    dtypes: Iterable[Any],
    series: Callable[[int], pd.Series[Any]],
    casts: Mapping[str, pa.DataType],
    refusals: Refusals,
) -> list[_Target]:
    """Return the types, each dtype's once; ``series`` gives the columns whose dtype does not say."""
    known: dict[Any, ObjectType] = {}
    types: list[_Target] = []
    for i, (name, dtype) in enumerate(zip(names, dtypes, strict=True)):
        try:
            if isinstance(dtype, np.dtype) and dtype.kind == "O":
                types.append(_infer(name, series(i).to_numpy(), casts.get(name)))
                continue
            # its hash covers all its values
            key = id(dtype) if isinstance(dtype, pd.CategoricalDtype) else dtype
            if key not in known:
                arrow = (
                    from_numpy(dtype, name)
                    if isinstance(dtype, np.dtype)
                    else from_pandas(dtype, name)
                )
                known[key] = ObjectType(arrow)
            types.append(known[key])
        except UnsupportedTypeError as error:
            refusals.setdefault(name, error)
            types.append(ObjectType(pa.null()))
    return types


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
    return int(series.memory_usage(index=False)), lambda a, b: pa.array(
        series.iloc[a:b], from_pandas=True
    )


def _categorical_column(name: str, series: pd.Series[Any]) -> _Column:
    codes = series.cat.codes.to_numpy()
    values = series.cat.categories
    if _holds_objects(values.dtype):
        objects = values.to_numpy(dtype=object)
        dictionary = _convert(
            f"{name} (its categories)", objects, 0, len(objects), infer(name, objects)
        )
    else:
        dictionary = pa.array(values, from_pandas=True)
    if isinstance(dictionary, pa.ChunkedArray):
        dictionary = dictionary.combine_chunks()

    def cut(start: int, stop: int) -> pa.Array:
        piece = codes[start:stop]
        missing = piece < 0 if len(piece) and piece.min() < 0 else None
        # codes are validated where they are converted
        return pa.DictionaryArray.from_arrays(
            pa.array(piece, mask=missing), dictionary, safe=False
        )

    # sent as 32 bits
    return 4 * len(codes), cut


def _numpy_column(values: np.ndarray[Any, Any]) -> _Column:
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    # counted before sending: once is enough
    has_nan: dict[tuple[int, int], bool] = {}

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
        if piece.num_chunks == 1:
            return piece.chunk(0)
        # Arrow cannot unify some dictionaries, and unifies those of halves wrongly
        return (
            piece
            if contains(piece.type, pa.types.is_dictionary)
            else piece.combine_chunks()
        )

    return nbytes(chunks), cut


def _object_column(name: str, values: np.ndarray[Any, Any], target: _Target) -> _Column:
    sample = values[:: max(1, len(values) // _SAMPLED)]
    size = 0
    # reported with their row when it is converted
    with contextlib.suppress(*CONVERSION_ERRORS):
        size = (
            _to_arrow(name, sample, target).nbytes * len(values) // max(len(sample), 1)
        )

    # tried before sending: one conversion is enough
    @functools.cache
    def cut(start: int, stop: int) -> Any:
        return _convert(name, values, start, stop, target)

    return max(size, values.nbytes), cut


def _convert(
    name: str, values: np.ndarray[Any, Any], start: int, stop: int, target: _Target
) -> Any:
    piece = values[start:stop]
    try:
        return _to_arrow(name, piece, target)
    except CONVERSION_ERRORS as error:
        row, reason = first_failing_row(
            len(piece), lambda a, b: _to_arrow(name, piece[a:b], target), error
        )
        where = f"rows {start} to {stop}"
        what = "the values"
        if row is not None:
            where = f"row {start + row}"
            what = show_value(piece[row])
        why = str(reason).removeprefix(f"column {name!r}, row 0: ")[:200]
        raise UnsupportedTypeError(
            f"column {name!r}, {where}: {what} cannot be converted to {target.arrow} ({why}); "
            "correct the value or convert the column first"
        ) from error


def _to_arrow(name: str, values: np.ndarray[Any, Any], target: _Target) -> Any:
    if isinstance(target, ObjectType):
        return to_arrow(values, target)
    return cast_objects(
        values, target.arrow, lambda some: to_arrow(some, infer(name, some))
    )


def _infer(
    name: str, values: np.ndarray[Any, Any], cast: pa.DataType | None
) -> _Target:
    """Infer an object column's type from its values, which must be of one kind, unless the caller wants them cast."""
    if cast is not None and not pa.types.is_nested(cast):
        return _Cast(cast)
    try:
        found = infer(name, values)
    except UnsupportedTypeError:
        if cast is None or not contains(cast, pa.types.is_map):
            raise
        # the pairs of maps hold two kinds
        return ObjectType(cast, as_they_are=False)
    return (
        ObjectType(cast)
        if cast is not None and pa.types.is_null(found.arrow)
        else found
    )
