"""The keys of rows: find one that is null, and two that are equal.

The client checks the keys of an upsert before its stream ends, and the folder
checks what it received. Rows are compared by hashes: 8 bytes each, whatever the number
and the types of the columns. Dictionaries stay codes, as one long value may be that of
many rows.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from rt_frames._schema.data_type import show_type, storage
from rt_frames._text import make_printable, shorten, show_value

# rows that are compared first: a key of many rows is found early
_FIRST_ROWS = 2**16


def find_null(column: pa.Array) -> int | None:
    """Return the number of the first null row, or None."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    is_null = column.is_null()
    if types.is_dictionary(column.type) and column.dictionary.null_count:
        # a value may be null, too
        is_null = pc.fill_null(column.dictionary.is_null().take(column.indices), True)
    row = pc.index(is_null, True).as_py()
    return None if row < 0 else row


def compact(column: pa.Array) -> pa.Array:
    """Copy a column without nulls. The copy holds no other memory of its batch.

    Extension types become their storage, and dictionaries lose values that no row has.
    """
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if not types.is_dictionary(column.type):
        # with one array alone, Arrow would not copy
        return pa.concat_arrays([column, column[:0]])
    indices = column.indices.to_numpy(zero_copy_only=False)
    used = column.indices.unique().to_numpy()
    # of the type of the codes, which may be small
    codes = np.zeros(len(column.dictionary), indices.dtype)
    codes[used] = np.arange(len(used), dtype=indices.dtype)
    values = column.dictionary.take(pa.array(used))
    return pa.DictionaryArray.from_arrays(pa.array(codes[indices]), values)


def compared_bytes(column: pa.Array) -> int:
    """Return the bytes that it takes at most to keep a column and to compare it."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    hashes = 8 * len(column)
    if not types.is_dictionary(column.type):
        return int(column.nbytes) + hashes
    # of a dictionary, only values that rows have are kept
    values = column.dictionary
    kept = values.nbytes
    if len(column) < len(values):
        kept = values.take(column.indices.unique()).nbytes
    return int(column.indices.nbytes + kept) + hashes


def find_equal(columns: Sequence[pa.ChunkedArray]) -> tuple[int, int] | None:
    """Return the first row that is equal to an earlier one, after that row, or None."""
    rows = len(columns[0])
    first_rows = [column[:_FIRST_ROWS] for column in columns]
    pair = _find_equal(first_rows)
    if pair is None and rows > _FIRST_ROWS:
        pair = _find_equal(columns)
    return pair


def _find_equal(columns: Sequence[pa.ChunkedArray]) -> tuple[int, int] | None:
    while True:
        # hashes of different rows may be equal, but not again with another seed
        hashes = _hash_rows(columns, secrets.randbits(64))
        if hashes.n_unique() == len(hashes):
            return None
        second = int((~hashes.is_first_distinct()).arg_max())
        first = int((hashes == hashes[second]).arg_max())
        if all(_plain(column, first) == _plain(column, second) for column in columns):
            return first, second


def _hash_rows(columns: Sequence[pa.ChunkedArray], seed: int) -> Any:
    # as fast as Arrow for numbers, and several times as fast for text
    import polars as pl

    hashes = []
    for number, column in enumerate(columns):
        chunks = [_hash_values(chunk, seed) for chunk in column.chunks]
        hashes.append(pl.concat(chunks, rechunk=True).alias(str(number)))
    return hashes[0] if len(hashes) == 1 else pl.DataFrame(hashes).hash_rows(seed)


def _hash_values(values: pa.Array, seed: int) -> Any:
    import polars as pl

    if types.is_dictionary(values.type):
        hashes = _hash_values(values.dictionary, seed).to_numpy()
        return pl.Series(hashes[values.indices.to_numpy()])
    return pl.Series(as_bits(values)).hash(seed)


def as_bits(values: pa.Array) -> pa.Array:
    """Return values in a type that Polars does not convert, as it does seconds."""
    arrow = values.type
    if types.is_temporal(arrow):
        return values.view(pa.int32() if arrow.bit_width == 32 else pa.int64())
    if types.is_decimal(arrow):
        return values.view(pa.binary(arrow.byte_width))
    return values


def _plain(column: pa.ChunkedArray, row: int) -> pa.Array:
    value = column.slice(row, 1).combine_chunks()
    return value.dictionary_decode() if types.is_dictionary(value.type) else value


def show_key(column: pa.ChunkedArray, row: int, arrow: pa.DataType) -> str:
    """Return a value of a compact column as text; ``arrow`` is its original type."""
    value = _plain(column, row)
    if storage(arrow) != arrow:
        value = pa.ExtensionArray.from_storage(arrow, value)
    if isinstance(value, pa.UuidArray):
        return str(value[0].as_py())
    if not (types.is_temporal(value.type) or types.is_decimal(value.type)):
        return show_value(value[0].as_py())
    # not as_py(): Python has no year beyond 9999
    text = value.to_string(skip_new_lines=True)[1:-1]
    # Arrow has no text for the years beyond 32767 (pyarrow 26)
    if text.startswith("<"):
        text = f"{as_bits(value)[0]} as {show_type(arrow)}"
    return make_printable(shorten(text, 80))
