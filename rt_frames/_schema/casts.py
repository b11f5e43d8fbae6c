"""Two Arrow types → what a cast between them does to the values, and whether the service's engine does it.

The engine casts inside a family of types, and lists of those::

    whole numbers · floats · text · binary · decimals · times · durations    each among themselves
    dates and timestamps                                                     among themselves
    timestamps → times

A dictionary counts as its values. Nothing leads to or from structs, maps, bool, null, fixed-size binary
and extension types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from rt_frames._schema.alterations import Alteration

_UNITS = ("s", "ms", "us", "ns")
_FLOATS = ("halffloat", "float", "double")
_SMALL_FIRST = (*_FLOATS, "string", "large_string", "binary", "large_binary", "date32[day]", "date64[ms]")


def castable(before: pa.DataType, after: pa.DataType) -> bool:
    """Tell whether the engine casts a column from one type to the other."""
    return refusal(before, after) is None


def refused_together(alterations: Iterable[Alteration]) -> str | None:
    """Say why the engine does not take these in one request, though each alone; None where it does.

    With a cast in the request, every column that is not cast itself must keep what it has: the engine lets it
    take neither a name that was in use nor another nullability, and forbids nulls nowhere.
    """
    alterations = list(alterations)
    if all(one.data_type is None for one in alterations):
        return None
    given_up = {one.path for one in alterations if one.rename is not None}
    for one in alterations:
        if one.nullable is False or (one.nullable is not None and one.data_type is None):
            return f"one request cannot change the nullability of {one.path!r} together with a cast"
        level = one.path.rpartition(".")[0]
        target = f"{level}.{one.rename}" if level else one.rename
        if one.data_type is None and one.rename is not None and target in given_up:
            return f"one request cannot rename {one.path!r} to a name that is in use together with a cast"
    return None


def kind_of_cast(before: pa.DataType, after: pa.DataType) -> str:
    """Tell whether a cast ``widens`` (no value can be lost), ``narrows`` (some can) or ``converts``."""
    if is_list(before) and is_list(after):
        return _list_effect(before, after)
    if _is_dictionary(before) and _is_dictionary(after):
        return kind_of_cast(before.value_type, after.value_type)
    family = _family(before)
    if _is_dictionary(before) or _is_dictionary(after) or not _in_reach(family, _family(after)):
        return "converts"
    if family != _family(after):
        return "narrows" if family == "timestamp" else "converts"
    return _effect_inside(family, before, after)


def _list_effect(before: pa.DataType, after: pa.DataType) -> str:
    inner = before.value_type, after.value_type
    effects = ["widens"] if inner[0] == inner[1] else [kind_of_cast(*inner)]
    if list_kind(before) != list_kind(after):
        grows = ("fixed_size_list", "list", "large_list")
        effects.append(_by_rank(grows.index(list_kind(before)[0]), grows.index(list_kind(after)[0])))
    if before.value_field.nullable and not after.value_field.nullable:
        effects.append("narrows")
    return next(word for word in ("converts", "narrows", "widens") if word in effects)


def _by_rank(before: int, after: int) -> str:
    return "widens" if before < after else "narrows"


def _effect_inside(family: str, before: pa.DataType, after: pa.DataType) -> str:
    if family == "integer":
        return _integer_effect(before, after)
    if family == "decimal":
        fits = after.scale >= before.scale and after.precision - after.scale >= before.precision - before.scale
        return "widens" if fits else "narrows"
    if family in ("timestamp", "duration", "time"):
        return _unit_effect(family, before, after)
    return _by_rank(_SMALL_FIRST.index(str(before)), _SMALL_FIRST.index(str(after)))


def _integer_effect(before: pa.DataType, after: pa.DataType) -> str:
    import pyarrow.types as is_

    signs = is_.is_signed_integer(before), is_.is_signed_integer(after)
    larger = after.bit_width > before.bit_width
    return "widens" if larger and (signs[0] <= signs[1]) else "narrows"


def _unit_effect(family: str, before: pa.DataType, after: pa.DataType) -> str:
    units = _UNITS.index(before.unit), _UNITS.index(after.unit)
    # every date of a calendar fits into seconds up to microseconds; nanoseconds end in the year 2262
    ends = after.unit == "ns" and family != "time"
    if units[0] != units[1] and (units[1] < units[0] or ends):
        return "narrows"
    return "converts" if family == "timestamp" and before.tz != after.tz else "widens"


def refusal(before: pa.DataType, after: pa.DataType) -> str | None:
    """Say why the engine does not do a cast; None where it does."""
    if is_list(before) and is_list(after):
        return _list_refusal(before, after)
    if before == after and _family(before) == "bool":
        return None
    if _family(before) and _in_reach(_family(before), _family(after)):
        return None
    return f"it casts no {before} to {after}"


def _list_refusal(before: pa.DataType, after: pa.DataType) -> str | None:
    (kind, size), (new_kind, new_size) = list_kind(before), list_kind(after)
    item = after.value_field
    if new_kind == "fixed_size_list":
        if kind == new_kind and size != new_size:
            return f"it does not change the length of a fixed_size_list, here from {size} to {new_size}"
        if not item.nullable:
            return "the items of its fixed_size_lists may always be null"
    elif (
        kind == "fixed_size_list"
        and before.value_type == after.value_type
        and (item.name, item.nullable) != ("item", True)
    ):
        return 'out of a fixed_size_list it makes lists with a nullable child named "item" only'
    return refusal(before.value_type, after.value_type)


def is_list(arrow: pa.DataType) -> bool:
    import pyarrow.types as is_

    return bool(is_.is_list(arrow) or is_.is_large_list(arrow) or is_.is_fixed_size_list(arrow))


def list_kind(arrow: pa.DataType) -> tuple[str, int]:
    """Give what distinguishes two lists of the same items."""
    import pyarrow.types as is_

    if is_.is_fixed_size_list(arrow):
        return "fixed_size_list", arrow.list_size
    return ("large_list" if is_.is_large_list(arrow) else "list"), 0


def _is_dictionary(arrow: pa.DataType) -> bool:
    import pyarrow.types as is_

    return bool(is_.is_dictionary(arrow))


def _in_reach(before: str, after: str) -> bool:
    """Tell whether a cast leads from one family to the other; from ``bool`` and from none it never does."""
    if before in ("date", "timestamp"):
        return after in ("date", "timestamp") or (before, after) == ("timestamp", "time")
    return before == after and before not in ("", "bool")


def _family(arrow: pa.DataType) -> str:
    import pyarrow.types as is_

    if is_.is_dictionary(arrow):
        return _family(arrow.value_type)
    families = {
        "integer": is_.is_integer(arrow),
        "float": is_.is_floating(arrow),
        "text": is_.is_string(arrow) or is_.is_large_string(arrow),
        "binary": is_.is_binary(arrow) or is_.is_large_binary(arrow),
        "date": is_.is_date(arrow),
        "timestamp": is_.is_timestamp(arrow),
        "time": is_.is_time(arrow),
        "duration": is_.is_duration(arrow),
        "decimal": is_.is_decimal(arrow),
        "bool": is_.is_boolean(arrow),
    }
    return next((family for family, fits in families.items() if fits), "")
