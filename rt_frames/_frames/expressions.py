"""A Polars expression, or tuples → a plain condition.

The expression is taken apart as the user wrote it: behind Polars' optimizer, conjuncts
may be missing. A node is recognised by making it again of its parts.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import re
import uuid
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from rt_frames import errors
from rt_frames._frames.exact_value import (
    OtherZone,
    Outside,
    Value,
    check_comparable,
    check_zone,
    convert,
)
from rt_frames._frames.to_polars import null_row
from rt_frames._names import did_you_mean
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
from rt_frames._text import one_line, show_value

# the engine refuses 50 nested parentheses (pylance 14)
MAX_DEPTH = 40
# Polars 2.1 compares nodes by recursion; 30,000 comparisons take 5 seconds
MAX_NODES = 120_000
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FLIPPED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_CLOSINGS = {
    "both": (">=", "<="),
    "left": (">=", "<"),
    "right": (">", "<="),
    "none": (">", "<"),
}
# of one literal
_MAX_CASTS = 5
_TUPLES = "(column, op, value), op one of ==, =, !=, <, <=, >, >=, in, not in"


def as_expression(where: Any) -> pl.Expr:
    """Return an expression as it is, or that of a list of tuples."""
    if isinstance(where, list):
        return _from_tuples(where)
    if isinstance(where, pl.Expr):
        return where
    library = type(where).__module__.partition(".")[0]
    if library == "pandas" and type(where).__name__ == "Expression":
        polars = re.sub(r"\bcol\(", "pl.col(", show_value(where))
        raise ValueError(f"where: pandas' expressions cannot be read; write {polars}")
    shown = show_value(where) if isinstance(where, str) else type(where).__name__
    raise ValueError(
        'where: expected an expression such as pl.col("n") > 1, or a list of tuples '
        f'such as [("n", ">", 1)], got {shown}; nothing was sent'
    )


def _from_tuples(filters: list[Any]) -> pl.Expr:
    """Return the expression of tuples, all of which must hold, or of lists of them."""
    if filters and all(isinstance(item, list) for item in filters):
        return functools.reduce(operator.or_, map(_all_of, filters))
    return _all_of(filters)


def _all_of(filters: list[Any]) -> pl.Expr:
    parts = []
    for item in filters:
        if (
            not isinstance(item, tuple)
            or len(item) != 3
            or not all(isinstance(word, str) for word in item[:2])
        ):
            raise ValueError(
                f"where: got {show_value(item)} in a list; expected tuples {_TUPLES}"
            )
        try:
            parts.append(_from_tuple(*item))
        except (TypeError, pl.exceptions.PolarsError):
            raise ValueError(
                f"where: column {item[0]!r}: Polars takes no {show_value(item[2])}; "
                "nothing was sent; pass values of one type that it has"
            ) from None
    if not parts:
        raise ValueError(f"where: got no tuple; expected a list of {_TUPLES}")
    return functools.reduce(operator.and_, parts)


def _from_tuple(name: str, op: str, value: Any) -> pl.Expr:
    column = pl.col(name)
    at = f"where: column {name!r}"
    if op in ("in", "not in"):
        if isinstance(value, str | bytes) or not isinstance(value, Iterable):
            raise ValueError(
                f"{at}: {op!r} needs a list of values, got {show_value(value)}"
            )
        values = []
        for one in value:
            _check_value(name, one)
            values.append(_plain(one))
        if any(isinstance(one, np.datetime64 | np.timedelta64) for one in values):
            # Polars 2.1 makes no list of them
            values = pl.select(pl.concat_list(values)).to_series()[0]
        found = column.is_in(values)
        return ~found if op == "not in" else found
    compare = _COMPARISONS.get("==" if op == "=" else op)
    if compare is None:
        raise ValueError(f"{at}: unknown operator {show_value(op)}; expected {_TUPLES}")
    _check_value(name, value)
    if isinstance(value, list | tuple | dict | set | pl.Expr):
        raise ValueError(f"{at}: {op!r} needs one value, got {show_value(value)}")
    made: pl.Expr = compare(column, pl.lit(_plain(value)))
    return made


def _plain(value: Any) -> Any:
    """Return the bytes of a UUID, of which Polars 2.1 has no literal."""
    return value.bytes if isinstance(value, uuid.UUID) else value


def _is_null(value: Any) -> bool:
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    # pandas' own, which need not be loaded
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _check_value(name: str, value: Any) -> None:
    """Refuse a null, and what Polars 2.1 would cut to microseconds."""
    if _is_null(value):
        raise ValueError(
            f"where: column {name!r} is compared with a null, which matches no row; use "
            f"pl.col({name!r}).is_null() for it"
        )
    nanosecond = getattr(value, "nanosecond", getattr(value, "nanoseconds", 0))
    if not nanosecond:
        return
    cure = "pass its .to_numpy()"
    zone = getattr(value, "tzinfo", None)
    if zone is not None:
        # NumPy has no zones
        moment = f'pl.lit({value.value}).cast(pl.Datetime("ns", "{zone}"))'
        cure = f"write an expression with {moment}"
    raise ValueError(
        f"where: column {name!r}: Polars would cut {show_value(value)} to microseconds; "
        f"{cure}"
    )


def parse(
    expression: pl.Expr,
    schema: pa.Schema,
    cure: str,
    *,
    owner: str = "the table",
    needs_column: bool = False,
) -> Condition:
    """Return an expression as a plain condition on the columns of a table.

    Parameters
    ----------
    expression : polars.Expr
        As the user wrote it.
    schema : pyarrow.Schema
        The columns.
    cure : str
        What to do instead of a part that is not on the list.
    owner : str
        Whose columns they are, in errors.
    needs_column : bool
        Whether a condition without a column is refused.

    Raises
    ------
    ValueError
        If a part is not on the list, or a value is not exact in its column's type.
    """
    parser = _Parser(schema, cure, owner, {})
    _check_size(expression)
    try:
        condition = parser.parse(expression, 0)
    except OtherZone as error:
        raise ValueError(str(error)) from None
    if needs_column and not parser.columns:
        raise ValueError(
            f"where: {_show(expression)} names no column, and would match all rows or "
            f"none; {cure}"
        )
    return condition


def recognised(predicate: pl.Expr, schema: pa.Schema) -> list[Condition]:
    """Return plain conditions, all of which hold for each row of a predicate.

    A predicate comes from Polars' optimizer. Its other conjuncts are left out.
    """
    parser = _Parser(schema, "", "the table", {})
    conditions = []
    with contextlib.suppress(ValueError):
        _check_size(predicate)
        for part in _flatten(predicate, operator.and_):
            try:
                conditions.append(parser.parse(part, 0))
            except OtherZone as error:
                # what a frame raises
                raise pl.exceptions.SchemaError(str(error)) from None
            except (
                ValueError,
                pl.exceptions.PolarsError,
                errors.UnsupportedTypeError,
            ):
                continue
    return conditions


def _check_size(expression: pl.Expr) -> None:
    nodes = 0
    todo = [expression]
    while todo:
        node = todo.pop()
        nodes += 1
        if nodes > MAX_NODES:
            raise ValueError(
                f"where: the expression has more than {MAX_NODES:,} parts; nothing was "
                "sent; use is_in, or several calls"
            )
        todo += node.meta.pop()


def _show(expression: pl.Expr) -> str:
    return one_line(str(expression), 80)


@dataclass
class _Column:
    name: str
    type: pa.DataType
    # one column without rows, for Polars' own check of types
    empty: pl.DataFrame | None = None


@dataclass
class _Parser:
    schema: pa.Schema
    cure: str
    owner: str
    # those that were named
    columns: dict[str, _Column]

    def parse(self, node: pl.Expr, depth: int) -> Condition:
        if depth > MAX_DEPTH:
            raise ValueError(
                f"where: the expression is nested more than {MAX_DEPTH} levels deep; "
                "nothing was sent; write it flatter"
            )
        if node.meta.is_column():
            column = self._column(node)
            if not pa.types.is_boolean(column.type):
                raise ValueError(
                    f"where: column {column.name!r} is {column.type}, not bool; compare "
                    "it with a value"
                )
            return Compare(column.name, column.type, "==", True)
        if node.meta.is_literal():
            return self._constant(node)
        parts = node.meta.pop()[::-1]
        if len(parts) == 2:
            for join, make in ((operator.and_, And), (operator.or_, Or)):
                if join(*parts).meta.eq(node):
                    operands = _flatten(node, join)
                    return make(tuple(self.parse(one, depth + 1) for one in operands))
        if len(parts) == 1 and (~parts[0]).meta.eq(node):
            return Not(self.parse(parts[0], depth + 1))
        return self._leaf(node, parts)

    def _constant(self, node: pl.Expr) -> Condition:
        values = pl.select(node).to_series()
        if len(values) != 1 or values.dtype not in (pl.Boolean(), pl.Null()):
            raise self._refusal(node)
        return Constant(values[0])

    def _leaf(self, node: pl.Expr, parts: list[pl.Expr]) -> Condition:
        if _is_value(node):
            return self._constant(node)
        if len(parts) == 2:
            return self._of_two(node, parts)
        if not parts or not parts[0].meta.is_column():
            raise self._refusal(node)
        first = parts[0]
        if len(parts) == 1:
            if first.is_null().meta.eq(node):
                return IsNull(self._column(first).name)
            if first.is_not_null().meta.eq(node):
                return Not(IsNull(self._column(first).name))
        if len(parts) == 3:
            for closed, symbols in _CLOSINGS.items():
                between = first.is_between(parts[1], parts[2], closed)  # type: ignore[arg-type]  # a key of `_CLOSINGS`
                if between.meta.eq(node):
                    return self._between(node, parts, symbols)
        raise self._refusal(node)

    def _of_two(self, node: pl.Expr, parts: list[pl.Expr]) -> Condition:
        for symbol, compare in _COMPARISONS.items():
            if compare(*parts).meta.eq(node):
                return self._comparison(node, parts, symbol)
        if parts[0].meta.is_column() and parts[0].is_in(parts[1]).meta.eq(node):
            return self._is_in(node, parts[0], parts[1])
        raise self._refusal(node)

    def _comparison(
        self, node: pl.Expr, parts: list[pl.Expr], symbol: str
    ) -> Condition:
        left, right = parts
        if not left.meta.is_column():
            left, right = right, left
            symbol = _FLIPPED[symbol]
        if not left.meta.is_column():
            raise self._refusal(node)
        column = self._column(left)
        value = self._value(node, right)
        condition = _compare(column, symbol, value)
        self._check_types(node, column)
        return condition

    def _between(
        self, node: pl.Expr, parts: list[pl.Expr], symbols: tuple[str, str]
    ) -> Condition:
        column = self._column(parts[0])
        bounds = []
        for symbol, part in zip(symbols, parts[1:], strict=True):
            bounds.append(_compare(column, symbol, self._value(node, part)))
        self._check_types(node, column)
        return And(tuple(bounds))

    def _is_in(self, node: pl.Expr, left: pl.Expr, right: pl.Expr) -> Condition:
        column = self._column(left)
        if not _is_value(right):
            raise self._refusal(node)
        values = _evaluate(right)
        if isinstance(values.dtype, pl.List):
            if len(values) != 1 or values[0] is None:
                raise self._refusal(node)
            values = values[0]
        check_comparable(column.name, column.type, "==")
        check_zone(column.name, column.type, values.dtype, in_list=True)
        exact = []
        for value in _physical(values):
            # as in Polars, a null among the values matches nothing
            if value is not None:
                converted = convert(
                    column.name, column.type, Value(value, values.dtype)
                )
                if not isinstance(converted, Outside):
                    exact.append(converted)
        self._check_types(node, column)
        return IsIn(column.name, column.type, tuple(exact))

    def _value(self, node: pl.Expr, part: pl.Expr) -> Value:
        if part.meta.is_column():
            name = part.meta.output_name()
            raise ValueError(
                f"where: {_show(node)} compares with column {name!r}; {self.cure}, "
                f"or write pl.lit({name!r}) for text"
            )
        if not _is_value(part):
            raise self._refusal(node)
        values = _evaluate(part)
        if len(values) != 1:
            raise self._refusal(node)
        value = _physical(values)[0]
        if value is None:
            raise ValueError(
                f"where: {_show(node)} compares with null, which matches no row; use "
                "pl.col(…).is_null() or .is_not_null()"
            )
        return Value(value, values.dtype)

    def _column(self, node: pl.Expr) -> _Column:
        name = node.meta.output_name()
        if name in self.columns:
            return self.columns[name]
        if name not in self.schema.names:
            known = did_you_mean(name, self.schema.names)
            raise ValueError(f"where: {self.owner} has no column {name!r}; {known}")
        if "`" in name:
            raise ValueError(
                f"where: column {name!r} has a backtick, which the engine cannot read; "
                "rename the column first"
            )
        column = _Column(name, self.schema.field(name).type)
        self.columns[name] = column
        return column

    def _check_types(self, node: pl.Expr, column: _Column) -> None:
        """Let Polars check the types. Without rows, nothing is computed."""
        if column.empty is None:
            field = self.schema.field(column.name)
            column.empty = null_row(pa.schema([field])).clear()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                checked = column.empty.select(node.alias("found"))
        except pl.exceptions.PolarsError as error:
            raise ValueError(
                f"where: {_show(node)}: {one_line(str(error), 100)}; nothing was sent"
            ) from None
        if checked.schema["found"] != pl.Boolean():
            raise self._refusal(node)

    def _refusal(self, node: pl.Expr) -> ValueError:
        return ValueError(f"where: {_show(node)} cannot be sent; {self.cure}")


def _flatten(node: pl.Expr, join: Callable[[Any, Any], Any]) -> list[pl.Expr]:
    """Return the operands of a chain of one operator, in order."""
    operands = []
    todo = [node]
    while todo:
        part = todo.pop()
        parts = part.meta.pop()
        if len(parts) == 2 and join(parts[1], parts[0]).meta.eq(part):
            todo += parts
        else:
            operands.append(part)
    return operands


def _compare(column: _Column, symbol: str, value: Value) -> Condition:
    check_comparable(column.name, column.type, symbol)
    check_zone(column.name, column.type, value.dtype)
    exact = convert(column.name, column.type, value)
    if not isinstance(exact, Outside):
        return Compare(column.name, column.type, symbol, exact)
    # before or after all that the column can hold
    none = IsIn(column.name, column.type, ())
    if exact.is_after:
        return Not(none) if symbol in ("!=", "<", "<=") else none
    return Not(none) if symbol in ("!=", ">", ">=") else none


def _is_value(node: pl.Expr, depth: int = 0) -> bool:
    """Return whether a node is a literal, or one as Polars casts or names it."""
    if node.meta.is_column() or depth > _MAX_CASTS:
        return False
    if node.meta.is_literal():
        return True
    parts = node.meta.pop()
    if not parts or not all(_is_value(part, depth + 1) for part in parts):
        return False
    inner = parts[-1]
    if len(parts) == 1 and inner.alias(node.meta.output_name()).meta.eq(node):
        return True
    dtype = _evaluate(node).dtype
    if len(parts) == 1:
        return inner.cast(dtype).meta.eq(node)
    # Polars 1.35 makes literals with a zone so
    if len(parts) != 2 or not isinstance(dtype, pl.Datetime):
        return False
    zoned = inner.dt.replace_time_zone(dtype.time_zone, ambiguous=parts[0])
    return zoned.meta.eq(node)


def _evaluate(node: pl.Expr) -> pl.Series:
    try:
        return pl.select(node).to_series()
    except pl.exceptions.PolarsError as error:
        raise ValueError(
            f"where: {_show(node)}: {one_line(str(error), 100)}; nothing was sent"
        ) from None


def _physical(values: pl.Series) -> list[Any]:
    """Return values; moments and the like as numbers, which are exact."""
    if values.dtype.is_temporal():
        return values.to_physical().to_list()
    return values.to_list()
