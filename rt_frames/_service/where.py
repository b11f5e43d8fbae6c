"""A condition of a public call → SQL for the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rt_frames._protocol.conditions import (
    MAX_BYTES,
    check_where,
    to_sql,
    write_condition,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    import polars as pl
    import pyarrow as pa

    from rt_frames._schema.leaves import Condition


def parse_where(where: Any) -> str | pl.Expr:
    """Return SQL text in parentheses, or an expression. Tuples become an expression."""
    if isinstance(where, str) and where.strip():
        return check_where(where)
    # Polars is slow to import
    from rt_frames._frames.expressions import as_expression

    return as_expression(where)


def write_fitting(conditions: Iterable[Condition]) -> str | None:
    """Return the SQL of those conditions that fit into one request, or None."""
    texts = []
    room = MAX_BYTES
    for condition in conditions:
        text = write_condition(condition)
        size = len(f"{text} AND ".encode())
        if size <= room:
            texts.append(text)
            room -= size
    return check_where(" AND ".join(texts)) if texts else None


def write_where(
    expression: pl.Expr,
    schema: pa.Schema | None,
    cure: str,
    *,
    needs_column: bool = False,
) -> str:
    """Return the SQL of an expression, with values in the types of a table's columns.

    ``cure`` is what to do instead of a part that cannot be sent. With ``needs_column``,
    a condition without a column is refused.
    """
    from rt_frames._frames import expressions

    if schema is None:
        raise ValueError(
            "where: this service does not describe tables, which expressions need; pass "
            "SQL text"
        )
    condition = expressions.parse(expression, schema, cure, needs_column=needs_column)
    return check_where(to_sql(condition))
