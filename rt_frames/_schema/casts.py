"""Two Arrow types → whether the engine casts between them, and how it may lose values.

This is the only file that knows the engine's casts. Plans mark the casts that are
refused here, and a folder refuses them. A dictionary counts as its values.
Structs, maps, bool, null, fixed-size binary and extension types are cast to and from no
other type.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import types

from rt_frames._names import join_path
from rt_frames._schema.data_type import is_list, list_kind, value_type

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
NUMBERS = frozenset({"integers", "floats", "decimals"})
_TIMES = frozenset({"dates and timestamps", "times", "durations"})
_UNITS = {
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
}
# where the engine cuts values below 0 to, unlike pandas
_DIRECTIONS = {"dates and timestamps": ", towards 1970", "durations": ", towards 0"}
# bits of a float → decimal digits that it keeps
_DIGITS = {16: 3, 32: 7}
UTC = ("UTC", "Etc/UTC", "GMT", "+00:00")


def lossy_reason(before: pa.DataType, after: pa.DataType) -> str | None:
    """Return how a cast may change values, or None if it is exact.

    Exact casts are listed, and tested at the edges of their values. All others count as
    lossy.
    """
    if is_list(before) and is_list(after):
        sizes = {list_kind(before)[1], list_kind(after)[1]}
        if len(sizes - {0}) > 1:
            return "the length of the lists would change"
        return lossy_reason(before.value_type, after.value_type)
    return _lossy_scalar_reason(value_type(before), value_type(after))


def _lossy_scalar_reason(before: pa.DataType, after: pa.DataType) -> str | None:
    kind = family(before)
    is_same_kind = kind == family(after)
    if before == after or (is_same_kind and kind in ("integers", "text", "binary")):
        return None
    if types.is_timestamp(before) and types.is_date(after):
        return "the time of day would be lost"
    if types.is_timestamp(before) and types.is_time(after):
        return "the day would be lost"
    if not kind or not is_same_kind:
        return f"{before} to {after} is not known to keep values"
    if types.is_floating(before):
        if after.bit_width < before.bit_width:
            digits = _DIGITS[after.bit_width]
            return (
                f"{before} to {after} keeps {digits} digits, and makes the largest "
                "numbers infinite"
            )
        return None
    if types.is_decimal(before):
        if after.scale < before.scale:
            return f"{before.scale} decimal places would be rounded to {after.scale}"
        return None
    if types.is_date(before):
        return _lossy_date_reason(before, after)
    return _lossy_time_reason(before, after)


def _lossy_date_reason(before: pa.DataType, after: pa.DataType) -> str | None:
    if types.is_date(after):
        if types.is_date64(before):
            return "dates in far years would wrap"
    elif after.tz not in (None, *UTC):
        return f"midnight would become another time in {after.tz}"
    elif after.unit in ("us", "ns"):
        return "dates in far years would wrap"
    return None


def _lossy_time_reason(before: pa.DataType, after: pa.DataType) -> str | None:
    old = getattr(before, "tz", None)
    new = getattr(after, "tz", None)
    if old is None and new not in (None, *UTC):
        return f"clock times would be taken for those of {new}"
    if new is None and old not in (None, *UTC):
        return f"clock times in {old} would become UTC's"
    units = list(_UNITS)
    if units.index(after.unit) < units.index(before.unit):
        cut = f"{_UNITS[before.unit]} would be cut to {_UNITS[after.unit]}"
        return cut + _DIRECTIONS.get(family(before), "")
    return None


def guesses_unit(before: pa.DataType, after: pa.DataType) -> bool:
    """Return whether a cast leads from a number to a time, date, duration, or back.

    A number of seconds looks like one of milliseconds, or like 20240105.
    """
    families = {family(value_type(before)), family(value_type(after))}
    return not families.isdisjoint(NUMBERS) and not families.isdisjoint(_TIMES)


def refusal_reason(
    before: pa.DataType, after: pa.DataType, lists: str = ""
) -> str | None:
    """Return why the engine refuses a cast, or None.

    ``lists`` is the list kind of the path.
    """
    if lists not in ("", "list"):
        return f"nothing inside a {lists} is cast"
    old_kind, old_size = list_kind(before)
    new_kind, new_size = list_kind(after)
    if not old_kind or not new_kind:
        return _scalar_refusal_reason(before, after)
    item = after.value_field
    is_default = item.nullable and item.name == "item"
    is_same_type = before.value_type == item.type
    if new_kind == "fixed_size_list":
        if old_kind == new_kind and old_size != new_size:
            return "the length of a fixed_size_list cannot change"
        if not item.nullable:
            return "the items of a fixed_size_list stay nullable"
    elif old_kind == "fixed_size_list" and not is_default and is_same_type:
        return 'the items of a fixed_size_list stay nullable and named "item"'
    return refusal_reason(before.value_type, item.type)


def _scalar_refusal_reason(before: pa.DataType, after: pa.DataType) -> str | None:
    # no other type without a family is cast to itself
    if before == after and types.is_boolean(after):
        return None
    before = value_type(before)
    after = value_type(after)
    kind = family(before)
    if kind and kind == family(after):
        return _corruption_reason(before, after)
    if types.is_timestamp(before) and types.is_time(after):
        return None
    if kind:
        return f"{before} can be cast to {kind} only"
    return f"{before} cannot be cast"


def _corruption_reason(before: pa.DataType, after: pa.DataType) -> str | None:
    """Return how the engine would silently corrupt values, or None."""
    if types.is_date(before) and types.is_timestamp(after):
        if after.unit in ("us", "ns"):
            return f"dates in far years would wrap, unless cast to {pa.timestamp('ms', after.tz)} first"
    elif types.is_timestamp(before) and types.is_date64(after):
        return "its values would not be whole days, as those of date32 are"
    return None


def list_kind_on_path(parents: Iterable[pa.DataType]) -> str:
    """Return the kind of the lists around a field, ``""`` if there are none.

    Of several kinds, it is the first other than ``"list"``.
    """
    kind = ""
    for arrow in parents:
        kind = list_kind(arrow)[0] or kind
        if kind not in ("", "list"):
            break
    return kind


def split_reason(
    changes: Sequence[tuple[str, str | None, Any, bool | None]],
) -> str | None:
    """Return why these changes need two requests, or None.

    A change is a path, a new name, a new type and a nullability. If one of the changes
    is a cast, the engine forbids nulls in no column; and a column that is not cast can
    neither change its nullability nor take a name that was in use. Fields of a struct
    that are cast and exchange names would exchange their values, too.
    """
    if all(cast is None for _, _, cast, _ in changes):
        return None
    renamed_paths = {path for path, name, _, _ in changes if name is not None}
    for path, name, cast, nullable in changes:
        if nullable is False or (nullable is not None and cast is None):
            return f"one request cannot change the nullability of {path!r} together with a cast"
        parent = path.rpartition(".")[0]
        # a whole column that is cast may take a name that was in use
        if name is None or (cast is not None and not parent):
            continue
        if join_path(parent, name) in renamed_paths:
            return f"one request cannot rename {path!r} to a name that is in use together with a cast"
    return None


@functools.lru_cache
def family(arrow: pa.DataType) -> str:
    """Return the family of a type, such as ``"integers"``, ``""`` if it has none."""
    for name, tests in _FAMILIES.items():
        if any(test(arrow) for test in tests):
            return name
    return ""
