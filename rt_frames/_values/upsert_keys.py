"""The keys of an upsert: none may be null, and none may occur twice.

The engine inserts a new key that occurs twice two times, and never finds a null again,
so neither may reach it. Keys are collected as they are converted for the table and
checked before the end of the stream is sent: a stream without its end stores nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyarrow import types

from rt_frames._names import did_you_mean
from rt_frames._schema.data_type import show_type, storage, value_type
from rt_frames._schema.keys import compact, find_equal, find_null, show_key
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


def no_keys() -> ValueError:
    return ValueError(
        "on: an upsert needs the column, or the list of columns, whose values identify "
        'a row; pass on="…"'
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


def check_key_types(
    keys: Sequence[str], schema: pa.Schema, table: pa.Schema | None
) -> None:
    """Raise if the type of a key, which is the table's if there is one, is no key."""
    place = "" if table is None else " in the table"
    for name in keys:
        arrow = schema.field(name).type
        # the engine compares JSON as text, and one value has many spellings
        plain = arrow if isinstance(arrow, pa.JsonType) else value_type(storage(arrow))
        if not any(is_key(plain) for is_key in _IS_KEY):
            raise UnsupportedTypeError(
                f"column {name!r} is {show_type(arrow)}{place}, which cannot be a key of an upsert; use a "
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
        self._rows = 0
        # of each key, its values in each batch
        self._chunks: list[list[pa.Array]] = [[] for _ in keys]
        self._types: list[pa.DataType] = []

    def add(self, columns: Sequence[pa.Array]) -> None:
        """Collect the key columns of a batch. Raise if one has a null."""
        if not columns:
            return
        self._types = [column.type for column in columns]
        for name, column in zip(self._keys, columns, strict=True):
            row = find_null(column)
            if row is not None:
                raise UnsupportedTypeError(
                    f"column {name!r}, row {self._rows + row}: the key is null, which "
                    "matches no row of a table; fill it, or leave the row out",
                    columns=(name,),
                )
        for chunks, column in zip(self._chunks, columns, strict=True):
            chunks.append(compact(column))
        self._rows += len(columns[0])

    def check(self) -> None:
        """Raise if two rows have the same key."""
        if not self._rows:
            return
        columns = [pa.chunked_array(chunks) for chunks in self._chunks]
        rows = find_equal(columns)
        if rows is None:
            return
        first, second = rows
        values = []
        for name, column, arrow in zip(self._keys, columns, self._types, strict=True):
            values.append(f"{name}={show_key(column, second, arrow)}")
        key = ", ".join(values)
        raise UnsupportedTypeError(
            f"rows {first} and {second} have the same key, {key}; keep only one of them",
            columns=tuple(self._keys),
        )
