"""Two Arrow types → whether the service's engine casts between them, and how that may change stored values.

The only place that knows the engine's casts: plans mark what is refused here, and the embedded service refuses it.
A dictionary counts as its values. Nothing leads to or from structs, maps, bool, null, fixed-size binary
and extension types.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyarrow import types

from rt_frames._names import join_path
from rt_frames._schema.data_type import is_list, list_kind

_FAMILIES = {
    "integers": (types.is_integer,),
    "floats": (types.is_floating,),
    "decimals": (types.is_decimal,),
    "text": (types.is_string, types.is_large_string),
    "binary": (types.is_binary, types.is_large_binary),
    "dates and timestamps": (types.is_date, types.is_timestamp),
    "times": (types.is_time,),
    "durations": (types.is_duration,),
}
INSTEAD = "cast all its rows and store them under a new name, as replacing the table would drop rows that the frame lacks"
_UNITS = {
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
}
# digits that a float of so many bits keeps
_DIGITS = {16: 3, 32: 7}
_UTC = ("UTC", "Etc/UTC", "GMT", "+00:00")


def loss(before: pa.DataType, after: pa.DataType) -> str | None:
    """Say how a cast may change stored values; None where the engine keeps or refuses each of them.

    What is exact is a list, each entry tried at the edges of its values; every other cast is called lossy.
    """
    if is_list(before) and is_list(after):
        return loss(before.value_type, after.value_type)
    before = _plain(before)
    after = _plain(after)
    kind = family(before)
    if before == after or (
        kind == family(after) and kind in ("integers", "text", "binary")
    ):
        return None
    if types.is_timestamp(before) and not types.is_timestamp(after):
        return f"the {'day' if types.is_time(after) else 'time of day'} would be lost"
    if kind != family(after) or not kind:
        return f"{before} to {after} is not known to keep values"
    if types.is_floating(before):
        narrows = after.bit_width < before.bit_width
        return (
            f"{before} to {after} keeps {_DIGITS[after.bit_width]} digits"
            if narrows
            else None
        )
    if types.is_decimal(before):
        rounds = after.scale < before.scale
        return (
            f"{before.scale} decimal places would be rounded to {after.scale}"
            if rounds
            else None
        )
    return (
        _loss_of_dates(before, after)
        if types.is_date(before)
        else _loss_of_times(before, after)
    )


def _loss_of_dates(before: pa.DataType, after: pa.DataType) -> str | None:
    if types.is_date(after):
        return None if types.is_date32(before) else "dates in far years would wrap"
    return (
        None
        if after.tz in (None, *_UTC)
        else f"midnight would become another time in {after.tz}"
    )


def _loss_of_times(before: pa.DataType, after: pa.DataType) -> str | None:
    old, new = (getattr(arrow, "tz", None) for arrow in (before, after))
    if old is None and new not in (None, *_UTC):
        return f"clock times would be taken for those of {new}"
    if new is None and old not in (None, *_UTC):
        return f"clock times in {old} would become UTC's"
    units = list(_UNITS)
    if units.index(after.unit) < units.index(before.unit):
        return f"{_UNITS[before.unit]} would be cut to {_UNITS[after.unit]}"
    return None


def refusal(before: pa.DataType, after: pa.DataType, lists: str = "") -> str | None:
    """Say why the engine does not do a cast; None where it does. ``lists`` are those that the path leads `through`."""
    return (
        _incompatibility(before, after)
        if lists in ("", "list")
        else f"nothing inside a {lists} is cast"
    )


def list_kind_on_path(parents: Iterable[pa.DataType]) -> str:
    """Return the kind of the lists around a field: the first that is no ``"list"``."""
    kind = ""
    for arrow in parents:
        kind = list_kind(arrow)[0] or kind
        if kind not in ("", "list"):
            break
    return kind


def _incompatibility(before: pa.DataType, after: pa.DataType) -> str | None:
    (old, size), (new, new_size) = list_kind(before), list_kind(after)
    if not old or not new:
        is_same_bool = before == after and types.is_boolean(after)
        before = _plain(before)
        after = _plain(after)
        kind = family(before)
        if (
            is_same_bool
            or (kind == family(after) != "")
            or (types.is_timestamp(before) and types.is_time(after))
        ):
            return _corruption(before, after)
        return (
            f"{before} can be cast to {kind} only"
            if kind
            else f"{before} cannot be cast"
        )
    item = after.value_field
    if new == "fixed_size_list":
        if old == new and size != new_size:
            return "the length of a fixed_size_list stays"
        if not item.nullable:
            return "the items of a fixed_size_list stay nullable"
    elif (
        old == "fixed_size_list"
        and before.value_type == item.type
        and (item.name, item.nullable) != ("item", True)
    ):
        return 'what was in a fixed_size_list is nullable and named "item"'
    return _incompatibility(before.value_type, item.type)


def _corruption(before: pa.DataType, after: pa.DataType) -> str | None:
    """Say what the engine does wrong in a cast without a word, which nobody can mean; None where it does it right."""
    if (
        types.is_date(before)
        and types.is_timestamp(after)
        and after.unit in ("us", "ns")
    ):
        return f"dates in far years would wrap, unless cast to {pa.timestamp('ms', after.tz)} first"
    if types.is_timestamp(before) and types.is_date64(after):
        return "its values would not be whole days, as those of date32 are"
    return None


def refused_together(
    changes: Iterable[tuple[str, str | None, Any, bool | None]],
) -> str | None:
    """Say why one request does not do changes that the engine does one by one; None where it does.

    They are given as path, new name, new type and nullability. With a cast among them, every column that is not cast
    itself must keep what it has: the engine lets it take neither a name that was in use nor another nullability, and
    forbids nulls nowhere. Fields of a struct that are cast and take each other's names would take the values, too.
    """
    changes = list(changes)
    if all(cast is None for _, _, cast, _ in changes):
        return None
    given_up = {path for path, name, _, _ in changes if name is not None}
    for path, name, cast, nullable in changes:
        if nullable is False or (nullable is not None and cast is None):
            return f"one request cannot change the nullability of {path!r} together with a cast"
        parent = path.rpartition(".")[0]
        if (
            (cast is None or parent)
            and name is not None
            and join_path(parent, name) in given_up
        ):
            return f"one request cannot rename {path!r} to a name that is in use together with a cast"
    return None


def _plain(arrow: pa.DataType) -> pa.DataType:
    return arrow.value_type if types.is_dictionary(arrow) else arrow


@functools.lru_cache
def family(arrow: pa.DataType) -> str:
    """Name the family of a type; the empty string where it has none."""
    return next(
        (
            name
            for name, tests in _FAMILIES.items()
            if any(test(arrow) for test in tests)
        ),
        "",
    )
