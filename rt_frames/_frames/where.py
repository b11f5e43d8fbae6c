"""What `where=` may be: a Polars expression, or tuples → a plain condition."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rt_frames._frames import tuples
from rt_frames._schema.leaves import Condition
from rt_frames._text import show_value

if TYPE_CHECKING:
    import polars as pl

    Checked = pl.Expr | list[list[tuples.Tuple]]


def check(where: Any) -> Checked:
    """Return an expression as it is, and tuples with their values as arrays."""
    if isinstance(where, list):
        return tuples.parse(where)
    # Polars is slow to import
    from rt_frames._frames import expressions

    if expressions.is_expression(where):
        return where
    cure = (
        'pass an expression such as pl.col("n") > 1, or a list of tuples such as '
        '[("n", ">", 1)]'
    )
    library = type(where).__module__.partition(".")[0]
    if library == "pandas" and type(where).__name__ == "Expression":
        polars = re.sub(r"\bcol\(", "pl.col(", show_value(where))
        raise ValueError(f"where: pandas' expressions cannot be read; write {polars}")
    if not isinstance(where, str):
        got = type(where).__name__
        raise ValueError(f"where: {got} is no condition; nothing was sent; {cure}")
    if expressions.is_sql(where):
        cure = f"write where=pl.sql_expr({show_value(where, 200)})"
    raise ValueError(
        f"where: {show_value(where)} is text, which is not read; nothing was sent; {cure}"
    )


def to_condition(
    where: Checked,
    schema: pa.Schema,
    cure: str,
    *,
    owner: str = "the table",
    needs_column: bool = False,
) -> Condition:
    """Return what `check` returned as a plain condition on the columns of a table.

    Parameters
    ----------
    where : polars.Expr or list
        As it was checked.
    schema : pyarrow.Schema
        The columns.
    cure : str
        What to do instead of a part of an expression that is not on the list.
    owner : str
        Whose columns they are, in errors.
    needs_column : bool
        Whether a condition without a column is refused.

    Raises
    ------
    ValueError
        If a part is not on the list, or a value is not exact in its column's type.
    """
    if isinstance(where, list):
        return tuples.to_condition(where, schema, owner)
    from rt_frames._frames import expressions

    return expressions.parse(
        where, schema, cure, owner=owner, needs_column=needs_column
    )
