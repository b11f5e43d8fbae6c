"""A Polars expression → a plain condition.

The expression is taken apart as the user wrote it: behind Polars' optimizer, conjuncts
may be missing. A node is recognised by making it again of its parts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import operator
import warnings
from collections.abc import Callable
from typing import Any, TypeGuard

import polars as pl
import pyarrow as pa

from rt_frames import errors
from rt_frames._frames.given_values import series_to_array
from rt_frames._frames.to_polars import null_row
from rt_frames._schema.data_type import show_type
from rt_frames._schema.leaves import (
    And,
    Condition,
    Constant,
    IsNull,
    Not,
    Or,
)
from rt_frames._text import one_line
from rt_frames._values import leaf

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
# not in Polars 1.35
_NAN_IS_NAN = pl.lit(float("nan")).meta.eq(pl.lit(float("nan")))
# of one literal
_MAX_CASTS = 5
# of a text in SQL
_MAX_TEXT = 200


def is_expression(where: Any) -> TypeGuard[pl.Expr]:
    """Return whether it is an expression of Polars."""
    return isinstance(where, pl.Expr)


def is_sql(text: str) -> bool:
    """Return whether Polars makes an expression of this kind of a text in SQL."""
    if len(text) > _MAX_TEXT:
        return False
    try:
        expression = pl.sql_expr(text)
        # Polars 1.35 ignores what follows a condition that is complete
        if not pl.sql_expr(f"({text})").meta.eq(expression):
            return False
        _Parser(None, "", "", {}).parse(expression, 0)
    except (ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return False
    return bool(expression.meta.root_names())


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
    condition = parser.parse(expression, 0)
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
    parser = _Parser(schema, "", "the table", {}, checks_zones=True)
    conditions = []
    with contextlib.suppress(ValueError):
        _check_size(predicate)
        for part in flatten(predicate, operator.and_):
            try:
                conditions.append(parser.parse(part, 0))
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
                "sent; use is_in"
            )
        todo += node.meta.pop()


def _show(expression: pl.Expr) -> str:
    try:
        return one_line(str(expression), 80)
    except pl.exceptions.PanicException:
        # a moment beyond the years that it prints (Polars 2.1)
        return "an expression"


@dataclasses.dataclass
class _Parser:
    # none, if only the kind of an expression matters
    schema: pa.Schema | None
    cure: str
    owner: str
    # those that were named, by their paths
    columns: dict[tuple[str, ...], leaf.Column]
    # whether moments in another zone are refused, as frames do
    checks_zones: bool = False
    # columns without rows, for Polars' own check of types
    empty: dict[str, pl.DataFrame] = dataclasses.field(default_factory=dict)

    def parse(self, node: pl.Expr, depth: int) -> Condition:
        if depth > MAX_DEPTH:
            raise ValueError(
                f"where: the expression is nested more than {MAX_DEPTH} levels deep; "
                "nothing was sent; write it flatter"
            )
        column = self._column(node)
        if column is not None:
            if not pa.types.is_boolean(column.type):
                raise ValueError(
                    f"where: {column} is {show_type(column.type)}, not bool; compare it with a "
                    "value"
                )
            return leaf.make(column, "==", [pa.array([True])])
        if node.meta.is_literal():
            return self._constant(node)
        parts = node.meta.pop()[::-1]
        if len(parts) == 2:
            for join, make in ((operator.and_, And), (operator.or_, Or)):
                if _is_same(join(*parts), node):
                    operands = flatten(node, join)
                    return make(tuple(self.parse(one, depth + 1) for one in operands))
        if len(parts) == 1 and _is_same(~parts[0], node):
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
            for symbol, compare in _COMPARISONS.items():
                if _is_same(compare(*parts), node):
                    return self._comparison(node, parts, symbol)
        column = self._column(parts[0]) if parts else None
        if column is None:
            raise self._refusal(node)
        return self._of_column(node, column, *parts)

    def _of_column(
        self, node: pl.Expr, column: leaf.Column, first: pl.Expr, *others: pl.Expr
    ) -> Condition:
        if not others and first.is_null().meta.eq(node):
            return IsNull(column.path)
        if not others and first.is_not_null().meta.eq(node):
            return Not(IsNull(column.path))
        if len(others) == 1 and first.is_in(others[0]).meta.eq(node):
            return self._is_in(node, column, others[0])
        if len(others) == 2:
            for closed, symbols in _CLOSINGS.items():
                between = first.is_between(*others, closed)  # type: ignore[arg-type]  # two, and a key of `_CLOSINGS`
                if _is_same(between, node):
                    return self._between(node, column, others, symbols)
        raise self._refusal(node)

    def _comparison(
        self, node: pl.Expr, parts: list[pl.Expr], symbol: str
    ) -> Condition:
        left, right = parts
        column = self._column(left)
        if column is None:
            column = self._column(right)
            right = left
            symbol = _FLIPPED[symbol]
        if column is None:
            raise self._refusal(node)
        value = self._value(node, right)
        return self._made(node, column, (symbol, value))

    def _between(
        self,
        node: pl.Expr,
        column: leaf.Column,
        parts: tuple[pl.Expr, ...],
        symbols: tuple[str, str],
    ) -> Condition:
        lower, upper = (self._value(node, part) for part in parts)
        return self._made(node, column, (symbols[0], lower), (symbols[1], upper))

    def _is_in(self, node: pl.Expr, column: leaf.Column, right: pl.Expr) -> Condition:
        if not _is_value(right):
            raise self._refusal(node)
        values = _evaluate(right)
        if isinstance(values.dtype, pl.List):
            if len(values) != 1 or values[0] is None:
                raise self._refusal(node)
            values = values[0]
        # as in Polars, a null among the values matches nothing
        given = series_to_array(values.drop_nulls())
        return self._made(node, column, ("in", given))

    def _made(
        self, node: pl.Expr, column: leaf.Column, *tests: tuple[str, pa.Array]
    ) -> Condition:
        if self.schema is None:
            return Constant(value=True)
        made = [leaf.make(column, symbol, [values]) for symbol, values in tests]
        self._check_types(node, self.schema.field(column.path[0]), tests[0][1])
        return And(tuple(made))

    def _value(self, node: pl.Expr, part: pl.Expr) -> pa.Array:
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
        if values.null_count():
            raise ValueError(
                f"where: {_show(node)} compares with null, which matches no row; use "
                "pl.col(…).is_null() or .is_not_null()"
            )
        return series_to_array(values)

    def _column(self, node: pl.Expr) -> leaf.Column | None:
        """Return the column, or the field of a struct, that a node is, or None."""
        path = _path(node)
        if path is None:
            return None
        if self.schema is None:
            return leaf.Column(path, pa.bool_())
        if path not in self.columns:
            self.columns[path] = leaf.find_column(self.schema, path, self.owner)
        return self.columns[path]

    def _check_types(self, node: pl.Expr, field: pa.Field, value: pa.Array) -> None:
        """Let Polars check the types. Without rows, nothing is computed."""
        if not self.checks_zones and getattr(value.type, "tz", None):
            # an instant is one in every zone
            return
        if field.name not in self.empty:
            self.empty[field.name] = null_row(pa.schema([field])).clear()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                checked = self.empty[field.name].select(node.alias("found"))
        except pl.exceptions.PolarsError as error:
            raise ValueError(
                f"where: {_show(node)}: {one_line(str(error), 100)}; nothing was sent"
            ) from None
        if checked.schema["found"] != pl.Boolean():
            raise self._refusal(node)

    def _refusal(self, node: pl.Expr) -> ValueError:
        return ValueError(f"where: {_show(node)} cannot be sent; {self.cure}")


def _path(node: pl.Expr) -> tuple[str, ...] | None:
    """Return the names of a column, or of a field of a struct; None of other nodes."""
    if node.meta.is_column():
        return (node.meta.output_name(),)
    parts = node.meta.pop()
    if len(parts) != 1:
        return None
    name = node.meta.output_name(raise_if_undetermined=False)
    if name is None or not parts[0].struct.field(name).meta.eq(node):
        return None
    path = _path(parts[0])
    return path and (*path, name)


def _is_same(made: pl.Expr, node: pl.Expr) -> bool:
    """Return whether a node is one that was made of its parts."""
    parts = made.meta.pop()
    if _NAN_IS_NAN or all(part.meta.eq(part) for part in parts):
        return made.meta.eq(node)
    return str(made) == str(node) and _finds(made, parts) == _finds(node, parts)


def _finds(node: pl.Expr, parts: list[pl.Expr]) -> str:
    """Return what a node gives for its values, which tells what is not printed."""
    values = [_evaluate(part) for part in parts if not part.meta.root_names()]
    column = pl.Series([None, *(series[0] for series in values)], dtype=pl.Float64)
    frame = pl.DataFrame(dict.fromkeys(node.meta.root_names(), column))
    try:
        return str(frame.select(node).to_series().to_list())
    except pl.exceptions.PolarsError:
        return "nothing"


def flatten(node: pl.Expr, join: Callable[[Any, Any], Any]) -> list[pl.Expr]:
    """Return the operands of a chain of one operator, in order."""
    operands = []
    todo = [node]
    while todo:
        part = todo.pop()
        parts = part.meta.pop()
        if len(parts) == 2 and _is_same(join(parts[1], parts[0]), part):
            todo += parts
        else:
            operands.append(part)
    return operands


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
    if len(parts) == 1 and _is_same(inner.alias(node.meta.output_name()), node):
        return True
    dtype = _evaluate(node).dtype
    if len(parts) == 1:
        return _is_same(inner.cast(dtype), node)
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
