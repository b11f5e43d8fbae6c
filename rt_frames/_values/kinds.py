"""Which types of values may join a column of a table, or of earlier batches.

Only a column with values is checked; one without values fits every column.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types

from rt_frames._schema.casts import NUMBERS, family
from rt_frames._schema.data_type import map_types, show_type, storage, value_type
from rt_frames._schema.portable import to_portable
from rt_frames.errors import UnsupportedTypeError

_PARSED = {*NUMBERS, "dates and timestamps", "times"}
# bits of an integer → decimal digits of the largest
_INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}


class Code(str):
    """A dtype written as code, for a message."""

    __slots__ = ()
    __repr__ = str.__str__


def has_no_value(array: pa.Array) -> bool:
    """Return whether all values are null."""
    if types.is_run_end_encoded(array.type):
        array = array.values
    return bool(array.null_count == len(array))


def check_appended(have: pa.DataType, target: pa.DataType, path: str) -> None:
    """Raise if values are not of the family of the table's type, at any depth."""
    have = to_portable(have, path)
    if not is_family(_stored(have), _stored(target)):
        raise table_type_error(have, target, path)


def table_type_error(
    have: pa.DataType, target: pa.DataType, path: str
) -> UnsupportedTypeError:
    """Make the error for a type that does not fit the table's."""
    text = f"column {path!r} is {show_type(have)}, but {show_type(target)} in the table"
    # text is parsed only if the caller asks for it
    is_parsed = types.is_boolean(target) or family(target) in _PARSED
    is_text = family(value_type(have)) == "text"
    if is_text and is_parsed and "." not in path:
        dtypes = {path: spell(target)}
        return UnsupportedTypeError(f"{text}; pass {dtypes=} to convert it")
    return UnsupportedTypeError(f"{text}; give it that type first")


def check_alike(have: pa.DataType, target: pa.DataType, path: str, origin: str) -> None:
    """Raise if values are of another type than those of the first batch."""
    have = to_portable(have, path)
    if not differs_in_layout_only(have, target):
        raise batch_type_error(have, target, path, origin)


def batch_type_error(
    have: pa.DataType, target: pa.DataType, path: str, origin: str
) -> UnsupportedTypeError:
    """Make the error for a type that does not fit the first batch's."""
    later = origin or "a later batch"
    text = (
        f"column {path!r} is {show_type(have)} in {later}, but {show_type(target)} "
        "before it"
    )
    common = _common_type(value_type(have), value_type(target))
    if "." in path or common is None:
        return UnsupportedTypeError(f"{text}; give both the same type")
    dtypes = {path: spell(common)}
    return UnsupportedTypeError(f"{text}; cast it, or pass {dtypes=}")


def is_family(have: pa.DataType, target: pa.DataType) -> bool:
    """Return whether a type takes values of another without ``dtypes=``."""
    if have == target:
        return True
    families = {_family(have), _family(target)}
    return "" not in families and (len(families) == 1 or families <= NUMBERS)


def differs_in_layout_only(have: pa.DataType, target: pa.DataType) -> bool:
    """Return whether two types are layouts of one, such as text and its categories."""
    have = value_type(have)
    target = value_type(target)
    if have == target:
        return True
    shared = family(have)
    return shared == family(target) and shared in ("text", "binary")


def _family(arrow: pa.DataType) -> str:
    # Polars and pandas know bytes of no fixed size
    return "binary" if types.is_fixed_size_binary(arrow) else family(arrow)


def _stored(arrow: pa.DataType) -> pa.DataType:
    return value_type(map_types(arrow, storage))


def wider_number(have: pa.DataType, target: pa.DataType) -> pa.DataType | None:
    """Return the type of numbers that joins those of a table and of rows for it.

    None if one of them is no number, or the table has that type.
    """
    have = value_type(have)
    if not {family(have), family(target)} <= NUMBERS:
        return None
    common = _common_type(have, target)
    return None if common == target else common


def _common_type(have: pa.DataType, target: pa.DataType) -> pa.DataType | None:
    """Return a type that holds the values of both, or None."""
    pair = [have, target]
    families = {family(have), family(target)}
    if any(map(types.is_nested, pair)):
        return None
    if families == {"floats", "decimals"}:
        return pa.float64()
    is_signed = any(map(types.is_signed_integer, pair))
    if "decimals" in families or (pa.uint64() in pair and is_signed):
        # Arrow makes int64 of uint64 and int8, and counts too few digits of integers
        # (pyarrow 26)
        pair = list(map(_as_decimal, pair))
    try:
        schemas = [pa.schema({"c": arrow}) for arrow in pair]
        unified = pa.unify_schemas(schemas, promote_options="permissive")
        return unified.field(0).type
    except pa.ArrowException:
        return None


def _as_decimal(arrow: pa.DataType) -> pa.DataType:
    if types.is_integer(arrow):
        return pa.decimal128(_INTEGER_DIGITS[arrow.bit_width], 0)
    return arrow


def spell(arrow: pa.DataType) -> str:
    """Write a dtype as a caller passes it."""
    # the bare word "float" has 64 bits elsewhere
    if types.is_floating(arrow):
        return f"float{arrow.bit_width}"
    return str(arrow)
