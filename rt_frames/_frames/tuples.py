"""The tuples of ``pandas.read_parquet(filters=…)`` → a plain condition.

They never pass through Polars, which would cut values, or make them null, without an
error.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from rt_frames._frames.given_values import to_array, to_arrays
from rt_frames._schema.leaves import And, Condition, Not, Or
from rt_frames._schema.portable import CONVERSION_ERRORS
from rt_frames._text import show_value
from rt_frames._values import leaf

_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
_EXPECTED = "(column, op, value), op one of ==, =, !=, <, <=, >, >=, in, not in"
# a column, an operator, and the values
Tuple = tuple[str, str, list[pa.Array]]


def parse(filters: list[Any]) -> list[list[Tuple]]:
    """Check tuples, all of which must hold, or lists of them, of which one must."""
    if filters and all(isinstance(item, list) for item in filters):
        return [_parse_all(item) for item in filters]
    return [_parse_all(filters)]


def to_condition(
    filters: list[list[Tuple]], schema: pa.Schema, owner: str
) -> Condition:
    """Return tuples as a plain condition on the columns of ``owner``."""
    return Or(
        tuple(
            And(tuple(_to_leaf(one, schema, owner) for one in tuples))
            for tuples in filters
        )
    )


def _parse_all(filters: list[Any]) -> list[Tuple]:
    if not filters:
        raise ValueError(f"where: got no tuple; expected a list of {_EXPECTED}")
    return [_parse(item) for item in filters]


def _parse(item: Any) -> Tuple:
    if (
        not isinstance(item, tuple)
        or len(item) != 3
        or not all(isinstance(word, str) for word in item[:2])
    ):
        raise ValueError(
            f"where: got {show_value(item)} in a list; expected tuples {_EXPECTED}"
        )
    name, operator, value = item
    operator = "==" if operator == "=" else operator
    at = f"where: column {name!r}"
    is_list = isinstance(value, Iterable) and not isinstance(value, str | bytes)
    if operator in ("in", "not in"):
        if not is_list:
            raise ValueError(
                f"{at}: {operator!r} needs a list of values, got {show_value(value)}"
            )
    elif operator not in _COMPARISONS:
        raise ValueError(
            f"{at}: unknown operator {show_value(operator)}; expected {_EXPECTED}"
        )
    elif is_list:
        raise ValueError(f"{at}: {operator!r} needs one value, got {show_value(value)}")
    try:
        arrays = to_arrays(value) if is_list else [to_array(value)]
    except CONVERSION_ERRORS:
        raise ValueError(
            f"{at}: {show_value(value)} cannot be compared; nothing was sent; pass "
            "values of Python, NumPy, pandas, Polars or Arrow"
        ) from None
    if any(array.null_count for array in arrays):
        raise ValueError(
            f"{at} is compared with a null, which matches no row; use "
            f"pl.col({name!r}).is_null() for it"
        )
    return name, operator, arrays


def _to_leaf(one: Tuple, schema: pa.Schema, owner: str) -> Condition:
    name, operator, arrays = one
    column = leaf.find_column(schema, (name,), owner)
    if operator == "not in":
        return Not(leaf.make(column, "in", arrays))
    return leaf.make(column, operator, arrays)
