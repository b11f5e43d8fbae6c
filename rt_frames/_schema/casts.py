"""Two Arrow types → what a cast between them does to the values, and whether the service's engine does it.

The engine casts inside a family of types, and lists of those::

    whole numbers · floats · text · binary · decimals · times · durations    each among themselves
    dates and timestamps                                                     among themselves
    timestamps → times

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
    "integer": (types.is_integer,),
    "float": (types.is_floating,),
    "text": (types.is_string, types.is_large_string),
    "binary": (types.is_binary, types.is_large_binary),
    "date": (types.is_date,),
    "timestamp": (types.is_timestamp,),
    "time": (types.is_time,),
    "duration": (types.is_duration,),
    "decimal": (types.is_decimal,),
}
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
    old, new = _family(before), _family(after)
    if not _in_reach(old, new):
        return "converts"
    if old != new:
        return "narrows" if old == "timestamp" else "converts"
    if not _keeps_all_values(old, before, after):
        return "narrows"
    return "converts" if old == "timestamp" and before.tz != after.tz else "widens"


def _kind_of_list_cast(before: pa.DataType, after: pa.DataType) -> KindOfCast:
    items = kind_of_cast(before.value_type, after.value_type)
    old, new = list_kind(before), list_kind(after)
    fits = old == new or _LISTS.index(old[0]) < _LISTS.index(new[0])
    if items == "widens" and not (fits and before.value_field.nullable <= after.value_field.nullable):
        return "narrows"
    return items


def _keeps_all_values(family: str, before: pa.DataType, after: pa.DataType) -> bool:
    """Return whether the one type of a family holds every value of the other."""
    if family in ("text", "binary"):
        return bool(types.is_large_string(after) or types.is_large_binary(after))
    if family == "decimal":
        whole_digits = before.precision - before.scale, after.precision - after.scale
        return bool(before.scale <= after.scale and whole_digits[0] <= whole_digits[1])
    if family in ("timestamp", "duration", "time"):
        units = _UNITS.index(before.unit), _UNITS.index(after.unit)
        # every date of a calendar fits into seconds up to microseconds; nanoseconds end in the year 2262
        ends = after.unit == "ns" and family != "time"
        return units[0] == units[1] or (units[0] < units[1] and not ends)
    signed = types.is_signed_integer(before), types.is_signed_integer(after)
    return bool(before.bit_width < after.bit_width and signed[0] <= signed[1])


def drops_zone(before: pa.DataType, after: pa.DataType) -> bool:
    """Return whether a cast takes away a zone other than UTC, whose local time the engine does not keep."""
    if is_list(before) and is_list(after):
        return drops_zone(before.value_type, after.value_type)
    both = types.is_timestamp(before) and types.is_timestamp(after)
    return both and after.tz is None and before.tz not in (None, *_UTC)


def refusal(before: pa.DataType, after: pa.DataType) -> str | None:
    """Say why the engine does not do a cast; None where it does."""
    (old, size), (new, new_size) = list_kind(before), list_kind(after)
    if not old or not new:
        possible = _in_reach(_family(before), _family(after)) or (before == after and types.is_boolean(after))
        return None if possible else f"it casts no {before} to {after}"
    item = after.value_field
    if new == "fixed_size_list":
        if old == new and size != new_size:
            return f"it does not change the length of a fixed_size_list, here from {size} to {new_size}"
        if not item.nullable:
            return "the items of its fixed_size_lists may always be null"
    elif old == "fixed_size_list" and before.value_type == item.type and (item.name, item.nullable) != ("item", True):
        return 'out of a fixed_size_list it makes lists with a nullable child named "item" only'
    return refusal(before.value_type, item.type)


def _family(arrow: pa.DataType) -> str:
    """Name the family of a type, of a dictionary that of its values; the empty string where it has none."""
    values = arrow.value_type if types.is_dictionary(arrow) else arrow
    return next((family for family, tests in _FAMILIES.items() if any(test(values) for test in tests)), "")


def _in_reach(before: str, after: str) -> bool:
    """Return whether a cast leads from one family to the other."""
    if before in ("date", "timestamp"):
        return after in ("date", "timestamp") or (before, after) == ("timestamp", "time")
    return before == after != ""
