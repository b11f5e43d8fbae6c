"""Check SQL conditions, replace each ``?`` by a literal, and write plain conditions.

The engine compares each literal exactly with every column that can hold the value:
`tests/client/test_conditions.py` tries each type of column.
"""

from __future__ import annotations

import datetime
import math
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from decimal import Decimal
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
from rt_frames._text import count, format_bytes, show_value

# text, and quoted names
_QUOTED = r"'[^']*'|`[^`]*`"
# where the engine may see other quotes than we do: comments, escapes, open quotes
_UNCLEAR = re.compile(r"--|/\*|['`\\$]")
# the engine reads whole numbers up to this, of either sign, as 64 bits
_MAX_INT = 2**63 - 1
# of a condition that the embedded service accepts
MAX_BYTES = 2**20
# digits of the engine's two decimal types
_DECIMAL_128 = 38
_DECIMAL_256 = 76
_EPOCH = datetime.datetime(1970, 1, 1)
# years that 64 bits of nanoseconds cover as a whole
_YEARS_OF_NANOSECONDS = range(1678, 2262)
UNITS = ("s", "ms", "us", "ns")
_NANOSECONDS = (10**9, 10**6, 10**3, 1)
_EXPECTED = "expected bytes, text, a bool, a number, Decimal, UUID, date, time, datetime or None"


def check_where(where: Any) -> str:
    """Return a condition in parentheses.

    Without them, engines ignore whatever follows a condition that is complete.
    """
    if not isinstance(where, str) or not where.strip():
        raise ValueError(
            f"where: expected an SQL condition such as \"n > 1 AND s = 'x'\", got {show_value(where)}"
        )
    bare = re.sub(_QUOTED, "", where)
    if '"' in bare:
        raise ValueError(
            "where: the engine reads \"…\" as text; write text in '…', and odd column names in `…`"
        )
    if ";" in bare:
        raise ValueError(
            "where: the engine ignores what follows a semicolon; leave it out"
        )
    depth = 0
    for char in bare:
        if char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
        if depth < 0:
            raise ValueError(
                f"where: {show_value(where)} closes a parenthesis that was not opened; leave it out"
            )
    return f"({where})"


def bind_where(where: Any, params: Any = None) -> str:
    """Return a checked condition with a literal for each ``?`` outside quotes.

    Raises
    ------
    ValueError
        If the condition or a value cannot be used, or their numbers differ.
    TypeError
        If a value is of a type that has no literal.
    """
    condition = check_where(where)
    values = _list_values(params)
    # every other piece is quoted, or a placeholder
    pieces = re.split(rf"({_QUOTED}|\?)", condition)
    bare = "".join(pieces[::2])
    placeholders = pieces.count("?")
    if len(values) != placeholders:
        raise ValueError(
            f"params: {placeholders} ? outside quotes, but {count(len(values), 'value')}; pass one "
            "value for each"
        )
    if values and (unclear := _UNCLEAR.search(bare)):
        raise ValueError(
            f"where: {unclear[0]} outside closed quotes cannot be combined with params; leave it out"
        )
    unbound = enumerate(values, 1)
    for number, piece in enumerate(pieces):
        if piece == "?":
            position, value = next(unbound)
            # in spaces: x-? with -1 would become a comment, x--1
            pieces[number] = f" {_literal(value, position)} "
    return "".join(pieces)


def finest_unit(params: Any) -> str:
    """Return the finest unit that a moment or time among the values needs."""
    needed = 0
    for value in _list_values(params):
        nanoseconds = _fraction(value)
        while nanoseconds % _NANOSECONDS[needed]:
            needed += 1
    return UNITS[needed]


def _fraction(value: Any) -> int:
    """Return the nanoseconds of a moment or time since its last full second."""
    if _is_a(value, "numpy", "datetime64"):
        moment = value.item()
        # nanoseconds since 1970, which NumPy returns for datetime64[ns]
        if isinstance(moment, int):
            return moment % 10**9
        value = moment
    # NaT is an instance of datetime
    if _is_a(value, "pandas", "NaTType"):
        return 0
    if not isinstance(value, datetime.datetime | datetime.time):
        return 0
    # only pandas' Timestamp has nanoseconds
    nanoseconds: int = getattr(value, "nanosecond", 0)
    return 1000 * value.microsecond + nanoseconds


def names_column(where: str, name: str) -> bool:
    """Return whether a condition may name a column."""
    quoted = re.findall("`([^`]*)`", where)
    words = re.findall(r"\w+", re.sub(_QUOTED, " ", where))
    names = {word.lower() for word in (*quoted, *words)}
    return name.lower() in names


def bind_optional(where: Any, params: Any = None) -> str | None:
    """Call `bind_where`. None if there is no condition."""
    if where is not None:
        return bind_where(where, params)
    if params is not None:
        raise ValueError("params: there is no condition; pass where= with a ? for each")
    return None


def _list_values(params: Any) -> list[Any]:
    if params is None:
        return []
    if not isinstance(params, Iterable) or isinstance(
        params, str | bytes | Mapping | AbstractSet
    ):
        raise TypeError(
            f"params: expected a list of values, one for each ?, got {show_value(params)}"
        )
    return list(params)


def _literal(value: Any, position: int) -> str:
    """Return the SQL literal of a value."""
    try:
        return _write(value)
    except TypeError:
        name = f"{type(value).__module__}.{type(value).__qualname__}"
        name = name.removeprefix("builtins.")
        raise TypeError(
            f"params: value {position} is of type {name}; {_EXPECTED}"
        ) from None
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"params: value {position} is {show_value(value)}: {error}"
        ) from None


def _write(value: Any) -> str:
    if _is_a(value, "pandas", "NaTType") or _is_a(value, "pandas", "NAType"):
        return "NULL"
    if _is_a(value, "numpy", "datetime64"):
        return _write_numpy_moment(value)
    # .item() may return an int
    if _is_a(value, "numpy", "timedelta64"):
        raise TypeError
    if _is_a(value, "numpy", "generic"):
        value = value.item()
    if value is None:
        return "NULL"
    for writable, write in _WRITERS:
        if isinstance(value, writable):
            return write(value)
    raise TypeError


def _is_a(value: Any, library: str, name: str) -> bool:
    """Return whether a value is an instance of a library's class, without import."""
    for base in type(value).__mro__:
        if base.__name__ == name and base.__module__.partition(".")[0] == library:
            return True
    return False


def _write_bool(value: bool) -> str:
    return "true" if value else "false"


def _write_int(value: int) -> str:
    if abs(value) <= _MAX_INT:
        return int.__repr__(value)
    return _write_decimal(Decimal(value))


def _write_float(value: float) -> str:
    if math.isnan(value):
        raise ValueError("it equals nothing; use isnan(column)")
    if math.isinf(value):
        bound = "> 1.7976931348623157e308"
        if value < 0:
            bound = "< -1.7976931348623157e308"
        raise ValueError(f"it has no literal; use column {bound}")
    return float.__repr__(value)


def _write_decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise ValueError("a decimal column cannot hold it")
    if value and abs(value.adjusted()) > _DECIMAL_256:
        raise ValueError(f"decimals have at most {_DECIMAL_256} digits")
    text = f"{value:f}" if value else "0"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    whole, _, fraction = text.lstrip("-").partition(".")
    precision = max(len(whole.lstrip("0")) + len(fraction), 1)
    if precision <= _DECIMAL_128:
        return f"CAST('{text}' AS DECIMAL({precision},{len(fraction)}))"
    if precision <= _DECIMAL_256:
        return f"arrow_cast('{text}', 'Decimal256({precision}, {len(fraction)})')"
    raise ValueError(f"decimals have at most {_DECIMAL_256} digits")


def _write_text(value: str) -> str:
    try:
        str.encode(value)
    except UnicodeEncodeError:
        raise ValueError("text cannot hold lone surrogates") from None
    doubled = str.replace(value, "'", "''")
    return f"'{doubled}'"


def _write_bytes(value: bytes) -> str:
    return f"X'{bytes.hex(value)}'"


def _write_uuid(value: uuid.UUID) -> str:
    return f"X'{value.hex}'"


def _write_datetime(value: datetime.datetime) -> str:
    # a pandas Timestamp may have a year that Python's datetime lacks
    if not datetime.MINYEAR <= value.year <= datetime.MAXYEAR:
        raise ValueError("the engine reads the years 1 to 9999")
    # only pandas' Timestamp has it
    nanosecond = getattr(value, "nanosecond", 0)
    if value.utcoffset() is None:
        return _write_moment(value, nanosecond)
    # in any other zone, the engine would compare wall times
    value = value.astimezone(datetime.UTC)
    return _write_moment(value, nanosecond, is_utc=True)


def _write_moment(
    value: datetime.datetime, nanosecond: int, *, is_utc: bool = False
) -> str:
    text = datetime.datetime.isoformat(value, " ", "microseconds")[:26]
    unit = "Microsecond"
    # also without nanoseconds: the engine compares all of IN (…) in one unit
    if nanosecond or value.year in _YEARS_OF_NANOSECONDS:
        text = f"{text}{nanosecond:03}"
        unit = "Nanosecond"
    if is_utc:
        return f"""arrow_cast('{text}Z', 'Timestamp({unit}, Some("UTC"))')"""
    return f"arrow_cast('{text}', 'Timestamp({unit}, None)')"


def _write_numpy_moment(value: Any) -> str:
    moment = value.item()
    if moment is None:
        return "NULL"
    if isinstance(moment, datetime.datetime):
        return _write_moment(moment, 0)
    if isinstance(moment, datetime.date):
        return _write_date(moment)
    # an int, as Python's datetime cannot hold the moment or its unit
    if value.dtype.name != "datetime64[ns]":
        raise ValueError("the engine reads the years 1 to 9999, and nanoseconds")
    microseconds, nanosecond = divmod(moment, 1000)
    passed = datetime.timedelta(microseconds=microseconds)
    return _write_moment(_EPOCH + passed, nanosecond)


def _write_date(value: datetime.date) -> str:
    return f"date '{datetime.date.isoformat(value)}'"


def _write_time(value: datetime.time) -> str:
    """Return text: the engine cannot compare times of two units."""
    if value.tzinfo is not None:
        raise ValueError("the engine has no times with a zone")
    return f"CAST('{datetime.time.isoformat(value)}' AS STRING)"


# each class before those that it derives from
_WRITERS: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (bool, _write_bool),
    (int, _write_int),
    (float, _write_float),
    (Decimal, _write_decimal),
    (str, _write_text),
    (bytes, _write_bytes),
    (uuid.UUID, _write_uuid),
    (datetime.datetime, _write_datetime),
    (datetime.date, _write_date),
    (datetime.time, _write_time),
)


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
        return f"({join.join(_operands(condition, join, holds))})"
    column = f"`{condition.column}`"
    if isinstance(condition, IsNull):
        return f"{column} IS {'' if holds else 'NOT '}NULL"
    if isinstance(condition, Compare):
        test = _write_comparison(condition, column, holds)
    else:
        test = _write_list(condition, column, holds)
    return f"({column} IS NOT NULL AND {test})"


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
        return _write_bool(value)
    if types.is_integer(arrow):
        return _write_whole(value)
    if types.is_floating(arrow):
        return f"arrow_cast('{value!r}', 'Float{arrow.bit_width}')"
    if types.is_decimal(arrow):
        return (
            f"arrow_cast('{value:f}', 'Decimal128({arrow.precision}, {arrow.scale})')"
        )
    if isinstance(value, str):
        return _write_text(value)
    if isinstance(value, bytes):
        return _write_bytes(value)
    return f"arrow_cast({_write_whole(value)}, '{_engine_type(arrow)}')"


def _write_whole(value: int) -> str:
    if abs(value) <= _MAX_INT:
        return int.__repr__(value)
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
    zone = str.replace(arrow.tz, "'", "''")
    return f'Timestamp({unit}, Some("{zone}"))'
