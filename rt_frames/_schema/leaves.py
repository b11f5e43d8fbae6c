"""Conditions on rows as plain data, each value in its column's stored type.

`_frames/where.py` makes them of expressions and tuples, and `_protocol/conditions.py`
writes them as SQL; neither may import the other, and both may import this file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Constant:
    """True, false, or null for every row."""

    value: bool | None


@dataclass(frozen=True)
class IsNull:
    """Whether a column is null, or a field of a struct at this path."""

    path: tuple[str, ...]


@dataclass(frozen=True)
class Compare:
    """A column, one of ``== != < <= > >=``, and a value. Null for a null.

    Dates, times, moments and durations are whole numbers in the unit of the type. NaN
    equals itself and is above all numbers.
    """

    path: tuple[str, ...]
    type: pa.DataType
    operator: str
    value: Any


@dataclass(frozen=True)
class IsIn:
    """Whether a column is one of some values, no null. Null for a null."""

    path: tuple[str, ...]
    type: pa.DataType
    values: pa.Array


@dataclass(frozen=True)
class Not:
    """The opposite; of null, null."""

    part: Condition


@dataclass(frozen=True)
class And:
    """Whether all parts hold."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Or:
    """Whether one of the parts holds."""

    parts: tuple[Condition, ...]


Condition = Constant | IsNull | Compare | IsIn | Not | And | Or


def columns_of(condition: Condition) -> list[str]:
    """Return the columns that a condition names, each once."""
    names: dict[str, None] = {}
    todo = [condition]
    while todo:
        part = todo.pop(0)
        if isinstance(part, And | Or):
            todo += part.parts
        elif isinstance(part, Not):
            todo.append(part.part)
        elif not isinstance(part, Constant):
            names[part.path[0]] = None
    return [*names]
