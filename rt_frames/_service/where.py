"""A condition of a public call → SQL for the service."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from rt_frames._protocol.conditions import MAX_BYTES, check_where, write_condition
from rt_frames._text import format_bytes, show_value

if TYPE_CHECKING:
    from collections.abc import Iterable

    import polars as pl
    import pyarrow as pa

    from rt_frames._schema.leaves import Condition


def cure_by_scan(name: str, version: int | None = None) -> str:
    """Return what to do instead of a part of an expression that cannot be sent."""
    pinned = "" if version is None else f", version={version}"
    return f'nothing was read; use rt.table("{name}"{pinned}).scan().filter(…)'


def parse_where(where: Any) -> str | pl.Expr:
    """Return SQL text in parentheses, or an expression. Tuples become an expression."""
    if isinstance(where, str) and where.strip():
        return check_where(where)
    if isinstance(where, list):
        # Polars is slow to import
        from rt_frames._frames.expressions import from_tuples

        return from_tuples(where)
    library = type(where).__module__.partition(".")[0]
    kind = type(where).__name__
    if (library, kind) == ("polars", "Expr"):
        return cast("pl.Expr", where)
    if (library, kind) == ("pandas", "Expression"):
        polars = re.sub(r"\bcol\(", "pl.col(", show_value(where))
        raise ValueError(f"where: pandas' expressions cannot be read; write {polars}")
    raise ValueError(
        f'where: expected an expression such as pl.col("n") > 1, got '
        f"{show_value(where)}; nothing was sent"
    )


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
    text = check_where(write_condition(condition))
    size = len(text.encode())
    if size > MAX_BYTES:
        raise ValueError(
            f"where: the condition has {format_bytes(size)}, more than "
            f"{format_bytes(MAX_BYTES)}; nothing was sent; send it in pieces, or upsert by "
            "key"
        )
    return text
