"""Plain conditions → SQL, in parentheses where it needs them.

Each literal is of its column's exact type: `tests/client/test_expressions.py` compares
each type of column with Polars.
"""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

from rt_frames._schema.casts import family
from rt_frames._schema.data_type import value_type
from rt_frames._schema.leaves import (
    And,
    Compare,
    Condition,
    Constant,
    IsIn,
    IsNull,
    Not,
    Or,
)
from rt_frames._text import format_bytes

# the engine reads whole numbers up to this, of either sign, as 64 bits
_MAX_INT = 2**63 - 1
_MAX_CHAIN = 1000
MAX_BYTES = 2**20
# of a value in a list, with its comma
_LEAST_BYTES = 3


_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
# of a column that is not null
_BESIDE_NAN = {
    "==": "isnan({})",
    "!=": "NOT isnan({})",
    "<": "NOT isnan({})",
    "<=": "true",
    ">": "false",
    ">=": "isnan({})",
}
_UNIT_NAMES = {
    "s": "Second",
    "ms": "Millisecond",
    "us": "Microsecond",
    "ns": "Nanosecond",
}


def to_sql(condition: Condition) -> str:
    """Return the SQL of a condition. Raise ValueError if it is too long to be sent."""
    text = write_condition(condition)
    nbytes = len(text.encode())
    if nbytes > MAX_BYTES:
        raise _too_long(nbytes)
    return text


def _too_long(nbytes: int) -> ValueError:
    return ValueError(
        f"where: the condition has at least {format_bytes(nbytes)}, more than "
        f"{format_bytes(MAX_BYTES)}; nothing was sent; upsert by key, or read with "
        "scan().filter(…)"
    )


def write_condition(condition: Condition, *, holds: bool = True) -> str:
    """Return the SQL of a condition, or of its opposite, which is true or false.

    Opposites go down to the columns, and each column is tested for null: the engine
    forgets nulls if one column has several IN lists.
    """
    if isinstance(condition, Constant):
        return "true" if condition.value is holds else "false"
    if isinstance(condition, Not):
        return write_condition(condition.part, holds=not holds)
    if isinstance(condition, And | Or):
        join = " AND " if isinstance(condition, And) == holds else " OR "
        parts = [write_condition(part, holds=holds) for part in condition.parts]
        return _join(join, parts)
    column = ".".join(f"`{name}`" for name in condition.path)
    if isinstance(condition, IsNull):
        return f"{column} IS {'' if holds else 'NOT '}NULL"
    if isinstance(condition, Compare):
        test = _write_comparison(condition, column, holds)
    else:
        test = _write_list(condition, column, holds)
    return f"({column} IS NOT NULL AND {test})"


def _join(join: str, operands: list[str]) -> str:
    """Join operands in parentheses; a chain of 50,000 ends the engine's process."""
    if len(operands) == 1:
        return operands[0]
    starts = range(0, len(operands), _MAX_CHAIN)
    chains = [join.join(operands[start : start + _MAX_CHAIN]) for start in starts]
    groups = [f"({chain})" for chain in chains]
    return groups[0] if len(groups) == 1 else f"({join.join(groups)})"


def _write_comparison(leaf: Compare, column: str, holds: bool) -> str:
    operator = leaf.operator if holds else _OPPOSITE[leaf.operator]
    is_float = pa.types.is_floating(leaf.type)
    if is_float and math.isnan(leaf.value):
        return _BESIDE_NAN[operator].format(column)
    sql = {"==": "=", "!=": "<>"}.get(operator, operator)
    test = f"{column} {sql} {write_typed(leaf.type, leaf.value)}"
    if not is_float:
        return test
    # the engine puts NaN with its sign bit below all numbers
    if operator in ("==", "<", "<="):
        return f"{test} AND NOT isnan({column})"
    return f"({test} OR isnan({column}))"


def _write_list(leaf: IsIn, column: str, holds: bool) -> str:
    # before time is spent on a long one
    least = leaf.values.nbytes if _is_text(leaf.type) else 0
    least += _LEAST_BYTES * len(leaf.values)
    if least > MAX_BYTES:
        raise _too_long(least)
    values = leaf.values.to_pylist()
    is_float = pa.types.is_floating(leaf.type)
    has_nan = is_float and any(map(math.isnan, values))
    if is_float:
        values = [value for value in values if not math.isnan(value)]
    found = "false"
    if values:
        literals = ", ".join(write_typed(leaf.type, value) for value in values)
        found = f"{column} IN ({literals})"
    if is_float:
        nan = f"isnan({column})"
        found = f"({found} OR {nan})" if has_nan else f"({found} AND NOT {nan})"
    return found if holds else f"NOT ({found})"


def write_typed(arrow: pa.DataType, value: Any) -> str:
    """Return the literal of a value in a column's own type."""
    types = pa.types
    if types.is_boolean(arrow):
        return "true" if value else "false"
    if types.is_integer(arrow):
        return _write_whole(value)
    if types.is_floating(arrow):
        return f"arrow_cast('{value!r}', 'Float{arrow.bit_width}')"
    if types.is_decimal(arrow):
        return (
            f"arrow_cast('{value:f}', 'Decimal128({arrow.precision}, {arrow.scale})')"
        )
    if isinstance(value, str):
        doubled = value.replace("'", "''")
        return f"'{doubled}'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return f"arrow_cast({_write_whole(value)}, '{_engine_type(arrow)}')"


def _is_text(arrow: pa.DataType) -> bool:
    return family(value_type(arrow)) in ("text", "binary")


def _write_whole(value: int) -> str:
    if abs(value) <= _MAX_INT:
        return str(value)
    kind = "Int64" if value < 0 else "UInt64"
    return f"arrow_cast('{value}', '{kind}')"


def _engine_type(arrow: pa.DataType) -> str:
    """Return the engine's name of a type of dates, times, moments or durations."""
    types = pa.types
    if types.is_date(arrow):
        return f"Date{arrow.bit_width}"
    unit = _UNIT_NAMES[arrow.unit]
    if types.is_time(arrow):
        return f"Time{arrow.bit_width}({unit})"
    if types.is_duration(arrow):
        return f"Duration({unit})"
    if arrow.tz is None:
        return f"Timestamp({unit}, None)"
    zone = arrow.tz.replace("'", "''")
    return f'Timestamp({unit}, Some("{zone}"))'
