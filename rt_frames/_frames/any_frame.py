"""Any frame → a `Source`: the portable schema, and record batches of it as often as the data allow.

Each library has one small function here that says how its frames are opened; what they have in common,
portable types, casts that were asked for and pieces of some 16 MiB, is done once for all.
Libraries are recognised without importing them: data of a library that is not loaded cannot exist.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rt_frames._frames import from_dask as _dask
from rt_frames._frames import from_pandas as _pandas
from rt_frames._frames import from_polars as _polars
from rt_frames._frames.batches import Converter, check_names, check_no_dots, nbytes_of, portable_schema, rows_per_piece
from rt_frames._schema.dtype import to_arrow_type

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl
    import pyarrow as pa


@dataclass(frozen=True)
class Source:
    """What is to be sent.

    Parameters
    ----------
    schema : pyarrow.Schema
        In portable types.
    open : callable
        Gives the record batches; may be called again only where ``repeatable``.
    rows, nbytes : int or None
        Size in memory; None where it is not known.
    repeatable : bool
        Whether the data can be read a second time.
    ready : bool
        Whether the batches already lie in memory as they are sent.
    close : callable
        Lets go of a generator or reader, whether it was read or not.
    bound : bool
        Whether it must be read on the caller's thread: a generator may use what belongs to that thread.
    """

    schema: pa.Schema
    open: Callable[[], Iterator[pa.RecordBatch]]
    rows: int | None
    nbytes: int | None
    repeatable: bool
    ready: bool
    close: Callable[[], None]
    bound: bool


@dataclass(frozen=True)
class _Raw:
    """Data as their library lays them out, and the schema that they are to be sent in."""

    schema: pa.Schema
    open: Callable[[], Iterable[pa.RecordBatch]]
    rows: int | None = None
    nbytes: int | None = None
    repeatable: bool = True
    ready: bool = True
    close: Callable[[], None] = lambda: None
    fallible: frozenset[str] = frozenset()
    dictionaries: Mapping[str, Any] = field(default_factory=dict)
    where: Callable[[], str] | None = None
    bound: bool = False


def open_source(data: Any, *, dtypes: Mapping[str, Any] | None = None, index: bool | None = None) -> Source:
    """Open any frame; every column that cannot be sent is refused here, by name.

    Raises
    ------
    TypeError
        If ``data`` is nothing that can be sent.
    ValueError
        If a column name, ``dtypes`` or ``index`` cannot be used.
    UnsupportedTypeError
        If a column's type or one of its values cannot be sent.
    """
    import pyarrow as pa

    _check_options(dtypes, index)
    targets = {name: to_arrow_type(dtype, name) for name, dtype in (dtypes or {}).items()}
    raw = _raw_of(data, targets, index)
    _check_targets(targets, raw.schema.names)
    schema = portable_schema(raw.schema, targets)
    check_no_dots(schema.names)
    _try_out(raw, schema, targets)

    dictionaries = {
        name: values.cast(schema.field(name).type.value_type)
        for name, values in raw.dictionaries.items()
        if pa.types.is_dictionary(schema.field(name).type)
    }

    def batches() -> Iterator[pa.RecordBatch]:
        convert = Converter(schema, targets, dictionaries, raw.where)
        return (convert(piece) for batch in raw.open() for piece in _cut(batch))

    ready = raw.ready and not targets
    return Source(schema, batches, raw.rows, raw.nbytes, raw.repeatable, ready, raw.close, raw.bound)


def arrow_schema(data: Any) -> pa.Schema:
    """Give the portable schema of a frame or of a schema, for a comparison; nothing is read or tried out."""
    import pyarrow as pa

    if is_a(data, "pandas", "DataFrame"):
        return portable_schema(_pandas.arrow_schema(data), {})
    if is_a(data, "polars", "DataFrame"):
        return portable_schema(_polars.arrow_schema(data.schema), {})
    return portable_schema(data if isinstance(data, pa.Schema) else _raw_of(data, {}, None).schema, {})


def _check_options(dtypes: Any, index: Any) -> None:
    if dtypes is not None and not isinstance(dtypes, Mapping):
        raise TypeError(f'dtypes: expected a dict such as {{"price": "float32"}}, got {type(dtypes).__name__}')
    if index not in (None, True, False):
        raise ValueError(f"index: expected None, True or False, got {index!r}")


def _check_targets(targets: Mapping[str, Any], names: list[str]) -> None:
    unknown = [name for name in targets if name not in names]
    if unknown:
        raise ValueError(f"dtypes names columns that are not there: {unknown!r}; the columns are {names!r:.500}")


def _try_out(raw: _Raw, schema: pa.Schema, targets: Mapping[str, Any]) -> None:
    """Convert, and forget, what can fail by value, so that it fails before anything is sent."""
    import pyarrow as pa

    doubtful = [name for name in schema.names if name in raw.fallible or name in targets]
    if doubtful and raw.nbytes is not None:
        convert = Converter(pa.schema([schema.field(name) for name in doubtful]), targets)
        for batch in raw.open():
            convert(batch.select(doubtful))


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    step = rows_per_piece(batch.num_rows, nbytes_of(batch))
    if batch.num_rows <= step:
        return iter((batch,))
    return (batch.slice(start, step) for start in range(0, batch.num_rows, step))


def is_a(data: Any, module: str, name: str) -> bool:
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(data, getattr(loaded, name, ()))


def _raw_of(data: Any, targets: Mapping[str, pa.DataType], index: bool | None) -> _Raw:
    if is_a(data, "pandas", "DataFrame"):
        return _from_pandas(data, targets, index)
    if is_a(data, "dask.dataframe", "DataFrame"):
        return _from_dask(data, targets, index)
    if _is_iterable(data):
        return _from_iterable(iter(data), targets, index)
    if index is not None:
        raise ValueError(f"index: only a pandas frame has one, not {_name(data)}; leave the option out")
    if is_a(data, "polars", "DataFrame"):
        return _from_polars(data)
    if is_a(data, "polars", "LazyFrame"):
        return _from_lazy(data)
    return _from_arrow(data, targets)


def _from_arrow(data: Any, targets: Mapping[str, pa.DataType]) -> _Raw:
    import pyarrow as pa

    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return _from_table(data, targets)
    if isinstance(data, pa.RecordBatchReader):
        return _Raw(data.schema, lambda: data, repeatable=False, close=data.close)
    if is_a(data, "pyarrow.dataset", "Dataset"):
        return _Raw(data.schema, lambda: data.to_batches(batch_readahead=4, fragment_readahead=1), ready=False)
    return _from_capsule(data)


def _is_iterable(data: Any) -> bool:
    return isinstance(data, Iterator | list | tuple) and not hasattr(data, "__arrow_c_stream__")


def _from_capsule(data: Any) -> _Raw:
    import pyarrow as pa

    if is_a(data, "pandas", "Series") or is_a(data, "polars", "Series"):
        raise TypeError(f"data: {_name(data)} is one column; make it a frame first, with .to_frame()")
    if not hasattr(data, "__arrow_c_stream__"):
        raise TypeError(
            f"data: {_name(data)} is no frame; a pandas or Polars DataFrame, a Polars LazyFrame, pyarrow data, an "
            "object with __arrow_c_stream__, or an iterator of frames or record batches can be sent"
        )
    reader = pa.RecordBatchReader.from_stream(data)
    return _Raw(reader.schema, lambda: reader, repeatable=False, close=reader.close)


def _name(data: Any) -> str:
    return f"{type(data).__module__.partition('.')[0]}.{type(data).__qualname__}"


def _from_pandas(frame: Any, targets: Mapping[str, pa.DataType], index: bool | None) -> _Raw:
    import pyarrow as pa

    series = _pandas.series_of(frame, index)
    check_names(list(series))
    columns = {name: _pandas.column_of(name, s, targets.get(name)) for name, s in series.items()}
    rows, nbytes = len(frame), sum(column.nbytes for column in columns.values())
    step = rows_per_piece(rows, nbytes)
    objects = frozenset(name for name, s in series.items() if s.dtype == object)
    return _Raw(
        pa.schema([(name, column.type) for name, column in columns.items()]),
        lambda: _pandas.pieces(columns, rows, step),
        rows,
        nbytes,
        ready=not objects,
        fallible=objects,
    )


def _from_dask(frame: Any, targets: Mapping[str, pa.DataType], index: bool | None) -> _Raw:
    """Read the schema off the first partition: Dask's own idea of it says nothing about what objects hold."""
    first = next(parts := _dask.partitions(frame), None)
    if first is None:
        raise ValueError("data: the Dask frame has no partitions")
    return _from_iterable(itertools.chain(iter([first]), parts), targets, index, "partition", parts.close)


def _from_polars(frame: pl.DataFrame) -> _Raw:
    return _Raw(
        _polars.arrow_schema(frame.schema),
        lambda: _polars.pieces(frame),
        frame.height,
        int(frame.estimated_size()),
        ready=_polars.is_ready(frame.schema),
        dictionaries=_polars.dictionaries(frame),
    )


def _from_lazy(frame: pl.LazyFrame) -> _Raw:
    schema = _polars.arrow_schema(frame.collect_schema())
    return _Raw(schema, lambda: _polars.lazy_pieces(frame), ready=False)


def _from_table(table: pa.Table, targets: Mapping[str, pa.DataType]) -> _Raw:
    import pyarrow as pa

    schema = portable_schema(table.schema, targets)
    coded = [i for i, c in enumerate(table.columns) if pa.types.is_dictionary(c.type) and c.num_chunks > 1]
    return _Raw(
        schema,
        table.to_batches,
        table.num_rows,
        nbytes_of(table),
        ready=schema.types == table.schema.types,
        dictionaries={
            schema.names[i]: pa.concat_arrays([chunk.dictionary for chunk in table.column(i).chunks]).unique()
            for i in coded
        },
    )


def _from_iterable(
    items: Iterator[Any],
    targets: Mapping[str, pa.DataType],
    index: bool | None,
    unit: str = "item",
    close: Callable[[], None] = lambda: None,
) -> _Raw:
    first = next(items, None)
    if first is None:
        raise ValueError("data: the iterator gave no frame, so the table's columns are not known")

    schema, close = _raw_of(first, targets, index).schema, getattr(items, "close", close)
    items, number = itertools.chain(iter([first]), items), -1
    del first  # an item is let go of before the next is asked for: each may be large

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal number
        for item in items:
            number += 1
            opened = _raw_of(item, targets, index).open()
            del item
            yield from opened
            del opened

    return _Raw(schema, batches, repeatable=False, close=close, where=lambda: f"{unit} {number}", bound=True)
