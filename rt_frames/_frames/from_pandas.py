"""A pandas frame → Arrow arrays, column by column and piece by piece.

pandas' own ways to Arrow are not taken: they name the index by what the data look like and add metadata
that carries library versions. Here a column's Arrow type depends on its dtype alone; only ``object``,
which says nothing, is told from the values. What pandas itself calls missing (NaN, NaT, NA, None) is null.
"""

from __future__ import annotations

import decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from rt_frames._schema.dtype import to_arrow_type
from rt_frames.errors import UnsupportedTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import numpy as np
    import pandas as pd
    import pyarrow as pa


class Column(NamedTuple):
    """One column: the Arrow type it is sent in, its size in bytes, and a way to cut rows ``start:stop`` out of it.

    What is cut may still be laid out differently, like the small codes of a category.
    """

    type: pa.DataType
    nbytes: int
    cut: Callable[[int, int], pa.Array]


def series_of(frame: pd.DataFrame, index: bool | None) -> dict[str, pd.Series[Any]]:
    """Give the columns to send, chosen index levels first, after a look at their labels."""
    import pandas as pd

    labels = [*_index_labels(frame, index), *frame.columns]
    _check_labels(labels)
    levels = [] if index is False else [i for i, n in enumerate(frame.index.names) if index or n is not None]
    values = [pd.Series(frame.index.get_level_values(i)) for i in levels]
    values += [series for _, series in frame.items()]
    return dict(zip(labels, values, strict=True))


def arrow_schema(frame: pd.DataFrame) -> pa.Schema:
    """Give the schema alone; only ``object`` columns are looked into."""
    import numpy as np
    import pyarrow as pa

    if any(name is not None for name in frame.index.names):
        return pa.schema([(name, column_of(name, s, None).type) for name, s in series_of(frame, None).items()])
    _check_labels(list(frame.columns))
    known: dict[Any, pa.DataType] = {}
    fields = []
    for i, (name, dtype) in enumerate(zip(frame.columns, frame.dtypes, strict=True)):
        if dtype == np.dtype(object):
            fields.append((name, column_of(name, frame.iloc[:, i], None).type))
            continue
        if dtype not in known:
            known[dtype] = to_arrow_type(dtype, name)
        fields.append((name, known[dtype]))
    return pa.schema(fields)


def _index_labels(frame: pd.DataFrame, index: bool | None) -> list[Any]:
    names = list(frame.index.names)
    if not index:
        return [] if index is False else [name for name in names if name is not None]
    if names == [None]:
        return ["level_0" if "index" in frame.columns else "index"]
    return [f"level_{i}" if name is None else name for i, name in enumerate(names)]


def _check_labels(labels: list[Any]) -> None:
    odd = [label for label in labels if not isinstance(label, str)]
    if odd:
        raise ValueError(
            f"column labels must be strings; these are not: {', '.join(map(repr, odd[:10]))}; "
            "give them names first, for example df.rename(columns=str)"
        )
    twice = sorted({label for label in labels if labels.count(label) > 1}) if len(set(labels)) < len(labels) else []
    if twice:
        raise ValueError(
            f"column labels must be unique; these occur more than once (named index levels count): "
            f"{', '.join(map(repr, twice[:10]))}; rename one, or leave the index out with index=False"
        )


def column_of(name: str, series: pd.Series[Any], target: pa.DataType | None) -> Column:
    """Find out how a column becomes Arrow.

    ``target`` is the type that the caller wants in the end; it only matters for values that have no type
    of their own.
    """
    import numpy as np
    import pandas as pd

    dtype = series.dtype
    if dtype == np.dtype(object):
        return _object_column(name, series, target)
    arrow = to_arrow_type(dtype, name)
    if isinstance(dtype, np.dtype):
        return _numpy_column(series.to_numpy(), arrow)
    if isinstance(dtype, pd.ArrowDtype) or getattr(dtype, "storage", "").startswith("pyarrow"):
        return _arrow_column(series.array.__arrow_array__(), arrow)
    return _extension_column(series, arrow)


def _numpy_column(values: np.ndarray[Any, Any], arrow: pa.DataType) -> Column:
    import numpy as np
    import pyarrow as pa

    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    looked_at: dict[tuple[int, int], bool] = {}  # the length is counted before the sending: one look is enough

    def cut(start: int, stop: int) -> pa.Array:
        piece = np.ascontiguousarray(values[start:stop])
        if (start, stop) not in looked_at:
            looked_at[start, stop] = _may_have_nan(piece)
        return pa.array(piece, from_pandas=looked_at[start, stop])

    return Column(arrow, values.nbytes, cut)


def _may_have_nan(values: np.ndarray[Any, Any]) -> bool:
    """Look for NaN at the speed of memory: one NaN makes a minimum NaN. A dot product would wake BLAS's threads."""
    import numpy as np

    if values.dtype not in (np.float32, np.float64):
        return values.dtype.kind in "fmM"
    return len(values) > 0 and bool(np.isnan(values.min()))


def _arrow_column(chunks: pa.ChunkedArray, arrow: pa.DataType) -> Column:
    def cut(start: int, stop: int) -> pa.Array:
        piece = chunks.slice(start, stop - start)
        return piece.chunk(0) if piece.num_chunks == 1 else piece.combine_chunks()

    return Column(arrow, chunks.nbytes, cut)


def _extension_column(series: pd.Series[Any], arrow: pa.DataType) -> Column:
    import pyarrow as pa

    def cut(start: int, stop: int) -> pa.Array:
        return pa.array(series.iloc[start:stop], from_pandas=True)

    return Column(arrow, int(series.memory_usage(index=False)), cut)


def _object_column(name: str, series: pd.Series[Any], target: pa.DataType | None) -> Column:
    import pyarrow as pa

    values = series.to_numpy()
    arrow = _infer(name, values, target)

    def cut(start: int, stop: int) -> pa.Array:
        try:
            return pa.array(values[start:stop], type=arrow, from_pandas=True)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise _cannot_convert(name, values, start, stop, arrow) from error

    return Column(arrow, values.nbytes * 8, cut)


def _infer(name: str, values: np.ndarray[Any, Any], target: pa.DataType | None) -> pa.DataType:
    """Tell an object column's type from its values, which must be of one kind."""
    import pyarrow as pa

    present = _present(name, values)
    if len(present) == 0:
        return pa.null() if target is None else target
    kind = _kind(present[0])
    other = _other_kind(kind, present)
    if target is not None and other is not None:
        return target
    if other is not None:
        row = next(i for i, value in enumerate(values) if value is other)
        raise UnsupportedTypeError(
            f"column {name!r} mixes kinds: its first value is {kind}, row {row} is {_kind(other)} ({other!r:.40}); "
            f"make it one kind first, for example df[{name!r}].astype(str)"
        )
    try:
        found = to_arrow_type(_infer_one_kind(kind, present), name)
        return pa.large_string() if pa.types.is_string(found) else found
    except UnsupportedTypeError:
        raise
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        if target is not None:
            return target
        raise UnsupportedTypeError(
            f"column {name!r} holds {kind} values for which Arrow has no type ({str(error)[:200]}); convert them first"
        ) from error


def _present(name: str, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Leave out what pandas calls missing."""
    import pandas as pd

    try:
        missing = pd.isna(values)
    except ArithmeticError as error:
        row = next(i for i, value in enumerate(values) if isinstance(value, decimal.Decimal) and value.is_snan())
        raise UnsupportedTypeError(
            f"column {name!r}, row {row}: a signalling NaN cannot be sent; replace it, for example with None"
        ) from error
    return values[~missing]  # type: ignore[no-any-return]  # the stubs do not say what an index array gives


def _infer_one_kind(kind: str, present: np.ndarray[Any, Any]) -> pa.DataType:
    import pyarrow as pa

    found = pa.infer_type(present, from_pandas=True)
    # Arrow infers microseconds; pandas' own scalars may hold nanoseconds
    if kind.startswith("datetime ") and any(getattr(value, "nanosecond", 0) for value in present):
        return pa.timestamp("ns", found.tz)
    if kind == "timedelta" and any(getattr(value, "nanoseconds", 0) for value in present):
        return pa.duration("ns")
    return found


def _other_kind(kind: str, present: np.ndarray[Any, Any]) -> Any:
    """Find the first value that is not of this kind; None where all are."""
    if not kind.startswith("datetime ") and {_kind_of_type(t) for t in set(map(type, present))} == {kind}:
        return None
    return next((value for value in present if _kind(value) != kind), None)


_KINDS = (
    ("bool", ("bool", "bool_")),
    ("int", ("int", "integer")),
    ("float", ("float", "floating")),
    ("list", ("list", "tuple", "ndarray")),
)


def _kind_of_type(kind: type) -> str:
    """Name a Python type, NumPy's scalars by the Python type they stand for."""
    ancestors = [ancestor.__name__ for ancestor in kind.__mro__]
    for name, members in _KINDS:
        if any(member in ancestors for member in members):
            return name
    named = ("str", "bytes", "datetime", "date", "time", "timedelta", "Decimal", "dict")
    return next((name for name in named if name in ancestors), kind.__name__)


def _kind(value: Any) -> str:
    kind = _kind_of_type(type(value))
    if kind == "datetime":
        return "datetime with a time zone" if value.tzinfo else "datetime without a time zone"
    return kind


def _cannot_convert(
    name: str, values: np.ndarray[Any, Any], start: int, stop: int, arrow: pa.DataType
) -> UnsupportedTypeError:
    """Find the row that does not convert."""
    import pyarrow as pa

    for row in range(start, stop):
        try:
            pa.array(values[row : row + 1], type=arrow, from_pandas=True)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            return UnsupportedTypeError(
                f"column {name!r}, row {row}: {values[row]!r:.80} is no {arrow} ({str(error)[:200]}); "
                "correct the value or convert the column first"
            )
    return UnsupportedTypeError(f"column {name!r}, rows {start} to {stop}: the values do not become {arrow}")


def pieces(columns: Mapping[str, Column], rows: int, step: int) -> Iterator[pa.RecordBatch]:
    """Cut the frame into record batches of ``step`` rows."""
    import pyarrow as pa

    names = list(columns)
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        yield pa.RecordBatch.from_arrays([c.cut(start, stop) for c in columns.values()], names=names)
