"""Two Arrow types → what a cast between them does to the values, and whether the service's engine does it.

The only place that knows the engine's casts: plans mark what is refused here, and the embedded service refuses it.
A dictionary counts as its values. Nothing leads to or from structs, maps, bool, null, fixed-size binary
and extension types.
"""

from __future__ import annotations

from typing import Literal

import pyarrow as pa
from pyarrow import types

from rt_frames._schema.data_type import is_list, list_kind

KindOfCast = Literal["widens", "narrows", "converts"]

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
POSSIBLE = f"casts stay within a family: {', '.join(_FAMILIES)}, and lists of them"  # but for timestamps to times
INSTEAD = "cast the frame and store it again, in place of the table or under a new name"
_UNITS = ("s", "ms", "us", "ns")
_UTC = ("UTC", "Etc/UTC", "GMT", "+00:00")
_LISTS = ("fixed_size_list", "list", "large_list")


def kind_of_cast(before: pa.DataType, after: pa.DataType) -> KindOfCast:
    """Return whether a cast ``widens`` (no value can be lost), ``narrows`` (some can) or ``converts``."""
    if before == after:
        return "widens"
    if is_list(before) and is_list(after):
        return _kind_of_list_cast(before, after)
    if types.is_dictionary(before) != types.is_dictionary(after):
        return "converts"
    if types.is_dictionary(before):
        return kind_of_cast(before.value_type, after.value_type)
    old, new = types.is_timestamp(before), types.is_timestamp(after)
    if not _in_reach(before, after) or (new and not old):
        return "converts"
    if not _keeps_all_values(before, after):
        return "narrows"
    return "converts" if old and before.tz != after.tz else "widens"


def _kind_of_list_cast(before: pa.DataType, after: pa.DataType) -> KindOfCast:
    items = kind_of_cast(before.value_type, after.value_type)
    old, new = list_kind(before), list_kind(after)
    fits = old == new or _LISTS.index(old[0]) < _LISTS.index(new[0])
    if items == "widens" and not (fits and before.value_field.nullable <= after.value_field.nullable):
        return "narrows"
    return items


def _keeps_all_values(before: pa.DataType, after: pa.DataType) -> bool:
    """Return whether the one type of a family holds every value of the other."""
    if types.is_timestamp(before) and not types.is_timestamp(after):
        return False
    if family(before) in ("text", "binary"):
        return bool(types.is_large_string(after) or types.is_large_binary(after))
    if types.is_decimal(before):
        whole_digits = before.precision - before.scale, after.precision - after.scale
        return bool(before.scale <= after.scale and whole_digits[0] <= whole_digits[1])
    if types.is_timestamp(before) or types.is_duration(before) or types.is_time(before):
        units = _UNITS.index(before.unit), _UNITS.index(after.unit)
        # every date of a calendar fits into seconds up to microseconds; nanoseconds end in the year 2262
        ends = after.unit == "ns" and not types.is_time(after)
        return units[0] == units[1] or (units[0] < units[1] and not ends)
    signed = types.is_signed_integer(before), types.is_signed_integer(after)
    return bool(before.bit_width < after.bit_width and signed[0] <= signed[1])


def drops_zone(before: pa.DataType, after: pa.DataType) -> bool:
    """Return whether a cast takes away a zone other than UTC, whose local time the engine does not keep."""
    if is_list(before) and is_list(after):
        return drops_zone(before.value_type, after.value_type)
    both = types.is_timestamp(before) and types.is_timestamp(after)
    return both and after.tz is None and before.tz not in (None, *_UTC)


def refusal(before: pa.DataType, after: pa.DataType, lists: str = "") -> str | None:
    """Say that the engine cannot do a cast; None where it can. ``lists`` are those that the path leads `through`."""
    why = _obstacle(before, after) if lists in ("", "list") else f" inside a {lists}"
    return None if why is None else f"cannot cast {before} to {after}{why}"


def through(lists: str, arrow: pa.DataType) -> str:
    """Return the kind of the lists that a path leads through once it goes on inside a type; all but ``"list"`` stay."""
    return (list_kind(arrow)[0] or lists) if lists in ("", "list") else lists


def _obstacle(before: pa.DataType, after: pa.DataType) -> str | None:
    """Return what to say behind both types; None where nothing stands against the cast."""
    (old, size), (new, new_size) = list_kind(before), list_kind(after)
    if not old or not new:
        possible = _in_reach(before, after) or (before == after and types.is_boolean(after))
        return None if possible else ""
    item = after.value_field
    if new == "fixed_size_list":
        if old == new and size != new_size:
            return ": the length of a fixed_size_list stays"
        if not item.nullable:
            return ": the items of a fixed_size_list stay nullable"
    elif old == "fixed_size_list" and before.value_type == item.type and (item.name, item.nullable) != ("item", True):
        return ': what was in a fixed_size_list is nullable and named "item"'
    return _obstacle(before.value_type, item.type)


def _in_reach(*both: pa.DataType) -> bool:
    """Return whether a cast leads from one type that is no list to another."""
    before, after = (arrow.value_type if types.is_dictionary(arrow) else arrow for arrow in both)
    return family(before) == family(after) != "" or (types.is_timestamp(before) and types.is_time(after))


def family(arrow: pa.DataType) -> str:
    """Name the family of a type; the empty string where it has none."""
    return next((name for name, tests in _FAMILIES.items() if any(test(arrow) for test in tests)), "")
