"""The keys of an upsert: none may be null, and none may occur twice.

The engine inserts a new key that occurs twice two times, and never finds a null again,
so neither may reach it. Keys are collected as they are converted for the table and
checked before the end of the stream is sent: a stream without its end stores nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from rt_frames._names import did_you_mean
from rt_frames._schema.data_type import show_type, storage, value_type
from rt_frames._text import show_value
from rt_frames.errors import UnsupportedTypeError

_IS_KEY = (
    types.is_integer,
    types.is_string,
    types.is_large_string,
    types.is_binary,
    types.is_large_binary,
    types.is_fixed_size_binary,
    types.is_date,
    types.is_time,
    types.is_timestamp,
    types.is_decimal,
    types.is_boolean,
)


def check_key_names(
    keys: Sequence[str], schema: pa.Schema, table: pa.Schema | None
) -> None:
    """Raise if the frame or the table lacks a key, or the engine cannot match it."""
    for name in keys:
        if '"' in name:
            raise ValueError(
                f"on: the name of key column {name!r} has a double quote, with which the "
                "engine cannot match it; rename the column"
            )
    for side, columns in (("frame", schema), ("table", table)):
        if columns is None:
            continue
        missing = [name for name in keys if name not in columns.names]
        if missing:
            offer = did_you_mean(missing[0], columns.names)
            raise ValueError(f"on: the {side} has no column {missing[0]!r}; {offer}")


def check_key_types(keys: Sequence[str], schema: pa.Schema) -> None:
    """Raise if the type of a key cannot be a key."""
    for name in keys:
        arrow = schema.field(name).type
        # the engine compares JSON as text, and one value has many spellings
        plain = arrow if isinstance(arrow, pa.JsonType) else value_type(storage(arrow))
        if not any(is_key(plain) for is_key in _IS_KEY):
            raise UnsupportedTypeError(
                f"column {name!r} is {show_type(arrow)}, which cannot be a key of an upsert; use a "
                "column of whole numbers, text, binary, dates, times, decimals, "
                "booleans, UUIDs or categories",
                columns=(name,),
            )


class KeyCheck:
    """Collects the keys of an upsert, batch by batch, and checks all of them.

    Parameters
    ----------
    keys : sequence of str
        The columns whose values together are a row's key.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = [*keys]
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        # of the last batch, for their types
        self._columns: Sequence[pa.Array] = ()

    def add(self, columns: Sequence[pa.Array]) -> None:
        """Collect the key columns of a batch. Raise if one has a null."""
        self._columns = columns
        arrays = [_values(column) for column in columns]
        if not arrays:
            return
        for name, array in zip(self._keys, arrays, strict=True):
            if array.null_count:
                row = self._rows + pc.index(array.is_null(), True).as_py()
                raise UnsupportedTypeError(
                    f"column {name!r}, row {row}: the key is null, which matches no row "
                    "of a table; fill it, or leave the row out",
                    columns=(name,),
                )
        batch = pa.RecordBatch.from_arrays(arrays, names=self._keys)
        self._batches.append(batch)
        self._rows += batch.num_rows

    def check(self) -> None:
        """Raise if two rows have the same key."""
        if not self._batches:
            return
        keys = pa.Table.from_batches(self._batches)
        rows = _first_rows_alike(keys)
        if not rows:
            return
        first, second = rows
        values = []
        for name, array in zip(self._keys, self._columns, strict=True):
            value = keys[name][first].as_py()
            if isinstance(array, pa.UuidArray):
                value = str(uuid.UUID(bytes=value))
            values.append(f"{name}={show_value(value)}")
        key = ", ".join(values)
        raise UnsupportedTypeError(
            f"rows {first} and {second} have the same key, {key}; keep only one of them",
            columns=tuple(self._keys),
        )


def _first_rows_alike(keys: pa.Table) -> list[int]:
    """Return the numbers of the first two rows that are equal; none if all differ."""
    # several times as fast as Arrow's group_by for large_string
    import polars as pl

    names = keys.column_names
    columns = {name: _comparable(keys[name]) for name in names}
    frame = pl.DataFrame(pa.table(columns))
    if frame.n_unique() == frame.height:
        return []
    duplicated = frame.with_row_index("").filter(frame.is_duplicated())
    first = duplicated[0].select(names).to_struct()
    alike = duplicated.filter(pl.struct(names) == first)
    return alike[""][:2].to_list()


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column in a type that Polars compares without converting it.

    Polars converts seconds, for example.
    """
    arrow = column.type
    if types.is_temporal(arrow):
        return column.cast(pa.int32() if arrow.bit_width == 32 else pa.int64())
    if types.is_decimal(arrow):
        width = pa.binary(arrow.byte_width)
        return pa.chunked_array([chunk.view(width) for chunk in column.chunks], width)
    return column


def _values(column: pa.Array) -> pa.Array:
    """Return plain values, as the dictionaries of categories differ between batches."""
    if types.is_dictionary(column.type):
        return column.dictionary_decode()
    if isinstance(column, pa.ExtensionArray):
        return column.storage
    return column
