"""Check SQL conditions, and write plain conditions as SQL.

Each literal is of its column's exact type: `tests/client/test_expressions.py` compares
each type of column with Polars.
"""

from __future__ import annotations

import math
import re
from typing import Any

import pyarrow as pa

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
from rt_frames._text import format_bytes, show_value

# text, and quoted names
QUOTED = re.compile("'[^']*'|`[^`]*`")
# the engine reads whole numbers up to this, of either sign, as 64 bits
_MAX_INT = 2**63 - 1
_MAX_CHAIN = 1000
# of a condition that the embedded service accepts
MAX_BYTES = 2**20


# outside quotes, engines read these in another way than the caller expects: → reason,
# cure
_MISREAD = {
    ";": ("the engine ignores everything after it", "leave it out"),
    '"': (
        'the engine reads "…" as text',
        "write text in '…', and odd column names in `…`",
    ),
    "--": ("a comment may hide the end", "leave it out"),
    "/*": ("a comment may hide the end", "leave it out"),
    "?": (
        "no value stands for it",
        'pass an expression such as pl.col("n") == 1',
    ),
}


def check_where(where: str) -> str:
    """Return a condition in parentheses.

    Without them, engines ignore whatever follows a condition that is complete.
    """
    fault = find_fault(where)
    if fault:
        fact, cure = fault
        raise ValueError(f"where: {show_value(where)} {fact}; nothing was sent; {cure}")
    return f"({where})"


def find_fault(condition: str) -> tuple[str, str] | None:
    """Return why engines would misread a condition in SQL, and the cure, or None."""
    bare = QUOTED.sub(" ", condition)
    for mark, (reason, cure) in _MISREAD.items():
        if mark in bare:
            return f"contains {mark!r}, but {reason}", cure
    if re.match(r"\s*where\b", bare, re.IGNORECASE):
        return "starts with WHERE", "leave that word out"
    depth = 0
    for bracket in re.findall("[()]", bare):
        depth += 1 if bracket == "(" else -1
        if depth < 0:
            return "closes a parenthesis that was not opened", "leave it out"
    return None


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
    # in the parentheses of `check_where`
    nbytes = len(f"({text})".encode())
    if nbytes > MAX_BYTES:
        raise ValueError(
            f"where: the condition has {format_bytes(nbytes)}, more than "
            f"{format_bytes(MAX_BYTES)}; nothing was sent; send it in pieces, or upsert "
            "by key"
        )
    return text


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
        return _join(join, _operands(condition, join, holds))
    column = f"`{condition.column}`"
    if isinstance(condition, IsNull):
        return f"{column} IS {'' if holds else 'NOT '}NULL"
    if isinstance(condition, Compare):
        test = _write_comparison(condition, column, holds)
    else:
        test = _write_list(condition, column, holds)
    return f"({column} IS NOT NULL AND {test})"


def _join(join: str, operands: list[str]) -> str:
    """Join operands in parentheses; a chain of 50,000 ends the engine's process."""
    starts = range(0, len(operands), _MAX_CHAIN)
    chains = [join.join(operands[start : start + _MAX_CHAIN]) for start in starts]
    groups = [f"({chain})" for chain in chains]
    return groups[0] if len(groups) == 1 else f"({join.join(groups)})"


def _operands(condition: And | Or, join: str, holds: bool) -> list[str]:
    """Return the operands; the engine refuses 50 nested parentheses."""
    texts = []
    for part in condition.parts:
        is_opposite = False
        inner = part
        while isinstance(inner, Not):
            inner = inner.part
            is_opposite = not is_opposite
        inner_holds = holds != is_opposite
        is_same = isinstance(inner, And | Or) and join == (
            " AND " if isinstance(inner, And) == inner_holds else " OR "
        )
        if is_same and isinstance(inner, And | Or):
            texts += _operands(inner, join, inner_holds)
        else:
            texts.append(write_condition(inner, holds=inner_holds))
    return texts


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
    values = list(leaf.values)
    is_float = pa.types.is_floating(leaf.type)
    has_nan = is_float and any(map(math.isnan, values))
    if is_float:
        values = [value for value in values if not math.isnan(value)]
    literals = dict.fromkeys(write_typed(leaf.type, value) for value in values)
    found = "false"
    if literals:
        found = f"{column} IN ({', '.join(literals)})"
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
