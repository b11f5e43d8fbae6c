"""Any frame → a `Source`, which is its rows and their plan, or its schema.

`_FORMS`, at the end, has all forms of data, and what can be done with each.
Libraries are recognised without importing them: while a library is not loaded, no data
of it can exist.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from rt_frames._arguments import check_flag, check_optional_flag, parse_names
from rt_frames._frames import from_arrow
from rt_frames._frames import where as conditions
from rt_frames._frames.from_dask import Partition, partitions
from rt_frames._frames.open_options import OpenOptions
from rt_frames._names import check_column_names, check_no_dots
from rt_frames._schema.any_dtype import to_arrow_type
from rt_frames._schema.portable import to_portable
from rt_frames._stream.batching import Chunk
from rt_frames._stream.source import Rows, Source
from rt_frames._text import list_names, one_line, show_value
from rt_frames._values.plan import make_plan
from rt_frames._values.refusals import Refusals
from rt_frames._values.upsert_keys import check_key_names, check_key_types
from rt_frames.errors import UnsupportedTypeError

_TypeReader = Callable[[pa.DataType], pa.DataType | None]


class _Form(NamedTuple):
    """A form of data, and what can be done with it; what cannot is None.

    Parameters
    ----------
    fits : callable
        Whether data has this form. The first form that fits is that of the data.
    open : callable
        Opens its `Rows`.
    schema : callable
        Returns the schema without reading rows.
    sample : callable
        Returns a frame with the same columns, without computing it, or None.
    holds_frames : bool
        Whether ``open`` opens frames inside.
    type_reader : callable
        Returns how the library reads a stored type, if it does not keep all types.
    """

    fits: Callable[[Any], bool]
    open: Callable[[Any, OpenOptions, Refusals], Rows] | None = None
    schema: Callable[[Any, OpenOptions, Refusals], pa.Schema | None] | None = None
    sample: Callable[[Any], Any] = lambda _: None
    holds_frames: bool = False
    type_reader: Callable[[], _TypeReader] | None = None


def is_a(data: Any, module: str, name: str) -> bool:
    """Return whether data has a class, without importing the class's module."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(data, getattr(loaded, name, ()))


def open_source(data: Any, options: OpenOptions) -> Source:
    """Open any frame.

    Raises
    ------
    TypeError
        If ``data`` is no frame.
    ValueError
        If the name of a column or of a cast, or the index, cannot be used.
    UnsupportedTypeError
        If a column's type or one of its values cannot be sent.
    """
    refusals = Refusals()
    rows = _open(data, options, refusals)
    try:
        return _planned(rows, options, refusals)
    except BaseException:
        rows.close()
        raise


def parse_open_options(
    dtypes: Mapping[str, Any] | None = None,
    index: bool | None = None,
    clean_names: bool = False,
    add_columns: bool = False,
    on: str | Iterable[str] | None = None,
    where: Any = None,
) -> OpenOptions:
    """Return the options of `rt_frames.to_table` with which a frame is opened."""
    keep_index = check_optional_flag("index", index)
    cleans = check_flag("clean_names", clean_names)
    keys = () if on is None else tuple(parse_names("on", on))
    adds = check_flag("add_columns", add_columns)
    if dtypes is not None and not isinstance(dtypes, Mapping):
        raise TypeError(
            f'dtypes: expected a dict such as {{"price": "float32"}}, got {type(dtypes).__name__}'
        )
    # data_type objects may spell types that tables do not keep
    casts = {}
    for name, dtype in (dtypes or {}).items():
        casts[name] = to_portable(to_arrow_type(dtype, name), name)
    if where is not None:
        where = conditions.check(where)
    return OpenOptions(
        casts=casts,
        add_columns=adds,
        keys=keys,
        keep_index=keep_index,
        clean=cleans,
        where=where,
    )


def _check_casts(casts: Mapping[str, pa.DataType], names: list[str]) -> None:
    known = set(names)
    unknown = [name for name in casts if name not in known]
    if unknown:
        raise ValueError(
            f"dtypes: no such columns: {list_names(unknown)} (the frame has {list_names(names)}); correct the names"
        )


def _planned(rows: Rows, options: OpenOptions, refusals: Refusals) -> Source:
    """Return the rows with the plan of their columns. Raise if one cannot be sent."""
    names = rows.schema.names
    table = options.table
    _check_casts(options.casts, names)
    check_column_names(names)
    check_no_dots(names)
    # before a missing key is taken for a new column
    check_key_names(options.keys, rows.schema, table)
    plan = make_plan(rows.schema, options, refusals)
    source = Source(rows, plan)
    source.check_values(refusals)
    refusals.check(names)
    check_key_types(options.keys, plan.schema, table)
    is_in_memory = rows.nbytes is not None
    if options.keys and is_in_memory:
        source.check_keys([*options.keys])
        return source
    if options.where is None:
        return Source(rows, plan, options.keys)
    cure = "nothing was sent; compare columns with values"
    where = conditions.to_condition(
        options.where, plan.schema, cure, owner="the frame", needs_column=True
    )
    source = Source(rows, plan, where=where)
    if is_in_memory:
        source.check_where()
    return source


def arrow_schemas(
    before: Any,
    after: Any,
    *,
    dtypes: Mapping[str, Any] | None = None,
    index: bool | None = None,
    clean_names: bool = False,
    stored: Collection[str] = (),
    read_type: _TypeReader | None = None,
) -> tuple[pa.Schema, pa.Schema]:
    """Return the portable schemas of two frames or schemas, without reading rows.

    Columns that could not be sent keep their types on a ``stored`` side, and where
    ``read_type`` tells that the other side's library reads a stored type so.
    """
    new_options = parse_open_options(dtypes, index, clean_names)
    old_options = parse_open_options(None, index, clean_names)

    def is_read(arrow: pa.DataType) -> bool:
        if read_type is None:
            return False
        return any(read_type(column) == arrow for column in old.types)

    is_kept: dict[str, Callable[[pa.DataType], bool]]
    is_kept = {"before": lambda _: False, "after": is_read}
    is_kept.update(dict.fromkeys(stored, lambda _: True))
    old = _arrow_schema(before, "before", old_options, is_kept["before"])
    new = _arrow_schema(after, "after", new_options, is_kept["after"])
    return old, new


def _arrow_schema(
    data: Any, side: str, options: OpenOptions, is_kept: Callable[[pa.DataType], bool]
) -> pa.Schema:
    """Return a portable schema, but for types that are kept though none can be sent."""
    refusals = Refusals()
    schema = _schema_of(data, side, options, refusals)
    _check_casts(options.casts, schema.names)
    check_column_names(schema.names)
    is_sent = side == "after"
    portable = make_plan(schema, options, refusals, is_sent=is_sent).schema
    fields = []
    for field in schema:
        if field.name not in refusals:
            fields.append(portable.field(field.name))
        elif is_kept(field.type):
            del refusals[field.name]
            fields.append(field)
    refusals.check(schema.names)
    return pa.schema(fields)


def type_reader(data: Any) -> _TypeReader | None:
    """Return how data's library reads a stored type, or None if it keeps all types."""
    form = _recognise(data)
    sample = form.sample(data)
    if sample is not None:
        return type_reader(sample)
    return form.type_reader() if form.type_reader else None


def _schema_of(
    data: Any, side: str, options: OpenOptions, refusals: Refusals
) -> pa.Schema:
    form = _recognise(data)
    sample = form.sample(data)
    if sample is not None:
        return _schema_of(sample, side, options, refusals)
    # the old side may be a frame of another library
    if side == "after":
        _check_index(data, options)
    schema = form.schema(data, options, refusals) if form.schema else None
    if schema is None:
        raise TypeError(f"{side}: {_schema_advice(data, side)}")
    return schema


def _schema_advice(data: Any, side: str) -> str:
    """Return why data has no schema, and what to pass."""
    if isinstance(data, str):
        shown = show_value(data)
        cure = f"for a table pass rt.table({shown})"
        if side == "before":
            cure += f", for the file of a schema pathlib.Path({shown})"
        return f"expected a frame or schema, got {shown}; {cure}"
    return (
        f"{_name(data)} is neither a frame in memory nor a schema, and reading it might use up its rows; "
        "pass a frame, a pyarrow.Schema (of a reader, .schema), a polars.Schema, a dict of names and dtypes, or a "
        "RemoteTable"
    )


def sent_schema(data: Any) -> pa.Schema:
    """Return the schema in which a frame would be sent.

    Raise if a column cannot be sent.
    """
    source = open_source(_meta(data) if _is_dask(data) else data, OpenOptions())
    source.rows.close()
    return source.plan.schema


def _open(data: Any, options: OpenOptions, refusals: Refusals) -> Rows:
    form = _recognise(data)
    if not form.holds_frames:
        _check_index(data, options)
    if form.open is None:
        raise TypeError(f"data: {_advice(data)}")
    return form.open(data, options, refusals)


def _check_index(data: Any, options: OpenOptions) -> None:
    if options.keep_index is not None and not is_a(data, "pandas", "DataFrame"):
        raise ValueError(
            f"index: only for pandas frames, got {_name(data)}; leave it out"
        )


_READERS = {
    ".csv": "scan_csv",
    ".ndjson": "scan_ndjson",
    ".jsonl": "scan_ndjson",
    ".arrow": "scan_ipc",
}


def _is_iterator(data: Any) -> bool:
    # as is a grouped frame of Polars 1.35, of which each item is a pair
    return isinstance(data, Iterator) and not hasattr(data, "agg")


def _advice(data: Any) -> str:
    """Return why data is not a frame, and how to make a frame of it."""
    if hasattr(data, "to_frame"):
        return f"{_name(data)} is one column; make it a frame first, with .to_frame()"
    if hasattr(data, "agg") and not isinstance(data, type):
        return f"{_name(data)} is not a dataframe; aggregate it first, with .agg(…)"
    if _is_column(data):
        return f'{_name(data)} is one column; make it a table first, for example pyarrow.table({{"name": data}})'
    if isinstance(data, str | os.PathLike):
        read = _READERS.get(Path(data).suffix.lower(), "scan_parquet")
        path = show_value(os.fspath(data), 500)
        return f"{path} is not a dataframe; if it is a file, pass for example polars.{read}({path})"
    # narwhals' queries, whose frames offer Arrow
    if hasattr(data, "to_native") and hasattr(data, "collect"):
        return f"{_name(data)} wraps a query; pass .to_native(), or .collect() it"
    if isinstance(data, dict) or is_a(data, "numpy", "ndarray"):
        return f"{_name(data)} is not a dataframe; make one first, for example pandas.DataFrame(data)"
    return (
        f"{_name(data)} is not a dataframe; pass a pandas, Polars or Dask DataFrame, a Polars LazyFrame, pyarrow data, "
        "an object with __arrow_c_stream__ or __arrow_c_array__, or an iterator of frames or record batches"
    )


def _name(data: Any) -> str:
    library = type(data).__module__.partition(".")[0]
    return f"{library}.{type(data).__qualname__}".removeprefix("builtins.")


def _is_dask(data: Any) -> bool:
    return is_a(data, "dask.dataframe", "DataFrame")


def _meta(data: Any) -> Any:
    """Return a Dask frame's empty pandas frame."""
    from dask.dataframe.dispatch import make_meta

    return make_meta(data)  # type: ignore[no-untyped-call]  # dask has no annotations


def _open_dask(data: Any, options: OpenOptions, refusals: Refusals) -> Rows:
    return _open_iterator(partitions(data), options, refusals)


def _is_pandas(data: Any) -> bool:
    return is_a(data, "pandas", "DataFrame")


def _open_pandas(data: Any, options: OpenOptions, refusals: Refusals) -> Rows:
    from rt_frames._frames import from_pandas

    return from_pandas.open_frame(data, options, refusals)


def _pandas_schema(data: Any, options: OpenOptions, refusals: Refusals) -> pa.Schema:
    from rt_frames._frames import from_pandas

    return from_pandas.arrow_schema(data, options, refusals)


def _is_polars(data: Any) -> bool:
    return is_a(data, "polars", "DataFrame") or is_a(data, "polars", "LazyFrame")


def _open_polars(data: Any, options: OpenOptions, refusals: Refusals) -> Rows:
    from rt_frames._frames import from_polars

    return from_polars.open_frame(data, options, refusals)


def _polars_schema(data: Any, options: OpenOptions, refusals: Refusals) -> pa.Schema:
    from rt_frames._frames import from_polars

    return from_polars.arrow_schema(data, options, refusals)


def _pandas_types() -> _TypeReader:
    from rt_frames._frames.to_pandas import read_type

    return read_type


def _polars_types() -> _TypeReader:
    from rt_frames._frames.to_polars import read_type

    return read_type


def _open_table(
    data: pa.Table | pa.RecordBatch, options: OpenOptions, _: Refusals
) -> Rows:
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    return from_arrow.open_table(data, options.clean)


def _own_schema(data: Any, options: OpenOptions, _: Refusals) -> pa.Schema:
    return from_arrow.clean_schema(data.schema, options.clean)


def _clean_schema(data: pa.Schema, options: OpenOptions, _: Refusals) -> pa.Schema:
    return from_arrow.clean_schema(data, options.clean)


def _is_column(data: Any) -> bool:
    if is_a(data, "pandas", "Series") or is_a(data, "polars", "Series"):
        return True
    return isinstance(data, pa.Array | pa.ChunkedArray)


def _offers_arrow(data: Any) -> bool:
    if isinstance(data, type):
        return False
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def _open_exported(data: Any, options: OpenOptions, _: Refusals) -> Rows:
    clean = options.clean
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return from_arrow.open_reader(pa.RecordBatchReader.from_stream(data), clean)
        return from_arrow.open_table(pa.table(data), clean)
    except pa.ArrowInvalid as error:
        raise UnsupportedTypeError(
            f"data: Arrow cannot read this {_name(data)} ({one_line(str(error), 200)}); cast the column first"
        ) from error


def _exported_schema(data: Any, options: OpenOptions, _: Refusals) -> pa.Schema | None:
    # raised for the data of a single column
    with contextlib.suppress(pa.ArrowInvalid):
        if hasattr(data, "__arrow_c_schema__") and not isinstance(data, type):
            return from_arrow.clean_schema(pa.schema(data), options.clean)
        if hasattr(data, "__arrow_c_array__"):
            return from_arrow.clean_schema(pa.table(data).schema, options.clean)
    return None


def _is_dtypes(data: Any) -> bool:
    return isinstance(data, Mapping) and all(isinstance(name, str) for name in data)


def _dtypes_schema(
    data: Mapping[str, Any], options: OpenOptions, refusals: Refusals
) -> pa.Schema:
    fields = []
    for name, dtype in data.items():
        try:
            fields.append((name, to_arrow_type(dtype, name)))
        except UnsupportedTypeError as error:
            refusals.setdefault(name, error)
    refusals.check(list(data))
    return from_arrow.clean_schema(pa.schema(fields), options.clean)


def _open_iterator(
    data: Iterable[Any], options: OpenOptions, refusals: Refusals
) -> Rows:
    """Open a list or iterator of frames, with the schema of the first one."""
    items = iter(data)
    close = getattr(items, "close", lambda: None)
    with contextlib.ExitStack() as undo:
        undo.callback(close)
        first = next(items, None)
        if first is None:
            raise ValueError(
                "data: the iterator is empty, so the columns are unknown; yield at least one frame, with or without rows"
            )
        rows = _open(first, options, refusals)
        undo.pop_all()

    def open_next(item: Any) -> Rows:
        later_refusals = Refusals()
        opened = _open(item, options, later_refusals)
        later_refusals.check(opened.schema.names)
        return opened

    following = itertools.chain(iter([rows]), map(open_next, items))

    def chunks() -> Iterator[Chunk]:
        numbers = itertools.count()
        for opened in following:
            origin = f"item {next(numbers)}"
            pieces = iter(opened.chunks())
            # each item is released before the next is made: it may be large
            del opened
            for chunk in pieces:
                yield chunk._replace(origin=chunk.origin or origin)
                del chunk
            del pieces

    return Rows(
        rows.schema, chunks, replayable=False, caller_thread_only=True, close=close
    )


def _open_partition(data: Partition, options: OpenOptions, refusals: Refusals) -> Rows:
    """Open one partition as `_open_iterator` would among all of them."""
    if data.frame is None:
        return Rows(data.schema, list, close=data.close)
    opened = _open(data.frame, options, refusals)
    schema = opened.schema if data.schema is None else data.schema

    def chunks() -> Iterator[Chunk]:
        for chunk in opened.chunks():
            yield chunk._replace(origin=f"partition {data.number}")

    return Rows(schema, chunks)


_FORMS = (
    _Form(_is_dask, _open_dask, sample=_meta, holds_frames=True),
    _Form(lambda data: isinstance(data, Partition), _open_partition, holds_frames=True),
    _Form(_is_pandas, _open_pandas, _pandas_schema, type_reader=_pandas_types),
    _Form(_is_polars, _open_polars, _polars_schema, type_reader=_polars_types),
    _Form(
        lambda data: is_a(data, "polars", "Schema"),
        schema=_dtypes_schema,
        type_reader=_polars_types,
    ),
    _Form(lambda data: isinstance(data, pa.Schema), schema=_clean_schema),
    _Form(_is_dtypes, schema=_dtypes_schema),
    _Form(
        lambda data: isinstance(data, from_arrow.Readable),
        lambda data, options, _: from_arrow.open_readable(data, options.clean),
    ),
    _Form(
        lambda data: isinstance(data, pa.Table | pa.RecordBatch),
        _open_table,
        _own_schema,
    ),
    _Form(
        lambda data: isinstance(data, pa.RecordBatchReader),
        lambda data, options, _: from_arrow.open_reader(data, options.clean),
    ),
    _Form(
        lambda data: is_a(data, "pyarrow.dataset", "Scanner"),
        lambda data, options, _: from_arrow.open_reader(
            data.to_reader(), options.clean
        ),
    ),
    _Form(
        lambda data: is_a(data, "pyarrow.dataset", "Dataset"),
        lambda data, options, _: from_arrow.open_dataset(data, options.clean),
        _own_schema,
    ),
    # one column is no frame, but may have fields
    _Form(_is_column, schema=_exported_schema),
    _Form(_offers_arrow, _open_exported, _exported_schema),
    _Form(
        lambda data: isinstance(data, list | tuple),
        _open_iterator,
        sample=lambda data: data[0] if data else None,
        holds_frames=True,
    ),
    _Form(_is_iterator, _open_iterator, holds_frames=True),
    # all else may at least export a schema
    _Form(lambda _: True, schema=_exported_schema),
)


def _recognise(data: Any) -> _Form:
    """Return the form of data."""
    return next(form for form in _FORMS if form.fits(data))
