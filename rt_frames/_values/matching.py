"""Rows that replace those which match a condition: each must match it, too.

A row is tested as it is sent, in the types of the table, so that what goes and what
comes is told apart by one rule: that of `_schema/leaves.py`.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from rt_frames._schema.keys import show_key
from rt_frames._schema.leaves import (
    And,
    Compare,
    Condition,
    Constant,
    IsIn,
    IsNull,
    Not,
    Or,
    columns_of,
)
from rt_frames._values.leaf import as_compared
from rt_frames.errors import UnsupportedTypeError

_call = pc.call_function
_KERNELS = {
    "==": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}


def check_rows(
    condition: Condition, batch: pa.RecordBatch, origin: str, rows_before: int
) -> None:
    """Raise if a row does not match. The error names it, as ``origin`` counts rows."""
    found = pc.fill_null(_match(condition, batch), False)
    row = pc.index(found, False).as_py()
    if row < 0:
        return
    values = []
    names = columns_of(condition)
    for name in names:
        stored = batch.column(name)
        if isinstance(stored, pa.ExtensionArray):
            stored = stored.storage
        column = pa.chunked_array([stored])
        shown = show_key(column, row, batch.schema.field(name).type)
        values.append(f"{name}={shown}")
    place = f"{origin}, row" if origin else "row"
    raise UnsupportedTypeError(
        f"where: {place} {rows_before + row} does not match ({', '.join(values):.200}); "
        "nothing was stored; correct the row, or leave it out",
        columns=tuple(names),
    )


def _match(condition: Condition, batch: pa.RecordBatch) -> Any:
    """Return for each row whether it matches; null where that is unknown."""
    if isinstance(condition, Constant):
        return pa.array([condition.value] * batch.num_rows, pa.bool_())
    if isinstance(condition, Not):
        return _call("invert", [_match(condition.part, batch)])
    if isinstance(condition, And | Or):
        kernel = "and_kleene" if isinstance(condition, And) else "or_kleene"
        parts = [_match(part, batch) for part in condition.parts]
        return functools.reduce(lambda left, right: _call(kernel, [left, right]), parts)
    column = batch.column(condition.path[0])
    for name in condition.path[1:]:
        # null in a struct that is null
        column = _call("struct_field", [column], pc.StructFieldOptions(name))
    if isinstance(condition, IsNull):
        return column.is_null()
    column = as_compared(column)
    if isinstance(condition, Compare):
        return _compare(condition, column)
    return _is_in(condition, column)


def _compare(leaf: Compare, column: pa.Array) -> Any:
    kernel = _KERNELS[leaf.operator]
    if not types.is_floating(column.type):
        return _call(kernel, [column, pa.scalar(leaf.value, column.type)])
    is_nan = _call("is_nan", [column])
    if math.isnan(leaf.value):
        return _call(kernel, [is_nan, True])
    found = _call(kernel, [column, leaf.value])
    # NaN is above all numbers
    return _call("or", [found, is_nan]) if leaf.operator in (">", ">=") else found


def _is_in(leaf: IsIn, column: pa.Array) -> Any:
    found = _call("is_in", [column], pc.SetLookupOptions(leaf.values))
    unknown = pa.scalar(None, pa.bool_())
    return _call("if_else", [column.is_valid(), found, unknown])
