"""Arrow's text of a type → the type.

::

    int64 · timestamp[us, tz=UTC] · decimal128(10, 2) · fixed_size_binary[16]
    list<item: int64 not null> · fixed_size_list<item: float>[3]
    struct<x: int64, y: list<item: string>> · map<string, int64>
    dictionary<values=string, indices=int32, ordered=0> · extension<arrow.uuid>
"""

from __future__ import annotations

import contextlib
import re

import pyarrow as pa

from rt_frames._schema.data_type import check_level
from rt_frames.errors import UnsupportedTypeError

_NESTED = re.compile(r"(\w+)<(.*)>(?:\[(\d{1,9})\])?", re.ASCII | re.DOTALL)
_EXTENSIONS = {"extension<arrow.uuid>": pa.uuid, "extension<arrow.json>": pa.json_}
_LISTS = {
    "list": pa.list_,
    "large_list": pa.large_list,
    "list_view": pa.list_view,
    "large_list_view": pa.large_list_view,
}


def parse_arrow(text: str, level: int = 0) -> pa.DataType | None:
    """Return the type, or None if the text is none of Arrow's.

    Raise ValueError if the parameters or the types inside are wrong.
    """
    check_level("", level)
    if text in _EXTENSIONS:
        return _EXTENSIONS[text]()
    match = _NESTED.fullmatch(text)
    try:
        if match is None:
            return _parse_flat(text)
        kind, inside, size = match.groups()
        return _parse_nested(kind, _split(inside), size, level + 1)
    except UnsupportedTypeError:
        raise
    except (TypeError, OverflowError, pa.ArrowException) as error:
        raise ValueError(str(error)) from None


def _parse_flat(text: str) -> pa.DataType | None:
    if match := re.fullmatch(
        r"timestamp\[(s|ms|us|ns), ?tz=([\w+:/-]+)\]", text, re.ASCII
    ):
        return pa.timestamp(match[1], match[2])
    if match := re.fullmatch(
        r"decimal(32|64|128|256)\((\d+), ?(-?\d+)\)", text, re.ASCII
    ):
        return getattr(pa, f"decimal{match[1]}")(int(match[2]), int(match[3]))
    if match := re.fullmatch(r"fixed_size_binary\[(\d{1,9})\]", text, re.ASCII):
        return pa.binary(int(match[1]))
    # Arrow ignores case: NumPy's "U8", eight characters, would be uint64 (pyarrow 26)
    if text == text.lower():
        with contextlib.suppress(ValueError):
            return pa.type_for_alias(text)
    return None


def _parse_nested(
    kind: str, parts: list[str], size: str | None, level: int
) -> pa.DataType | None:
    if kind == "struct":
        return pa.struct([_parse_field(part, level, None) for part in parts])
    if kind == "map" and len(parts) == 2:
        return pa.map_(*[_parse_inside(part, level) for part in parts])
    if kind == "dictionary":
        values: dict[str, str] = {}
        for part in parts:
            key, _, value = part.partition("=")
            values[key] = value
        indices = _parse_inside(values.get("indices", "int32"), level)
        arrow = _parse_inside(values.get("values", ""), level)
        return pa.dictionary(indices, arrow, values.get("ordered") == "1")
    if len(parts) != 1:
        return None
    if kind == "fixed_size_list" and size is not None:
        return pa.list_(_parse_field(parts[0], level), int(size))
    if kind in _LISTS:
        return _LISTS[kind](_parse_field(parts[0], level))
    return None


def _parse_field(text: str, level: int, unnamed: str | None = "item") -> pa.Field:
    """Parse a field; ``unnamed`` is the name of one without."""
    name, colon, arrow = text.partition(": ")
    if not colon or "<" in name:
        if unnamed is None:
            raise ValueError(f"{text!r:.80} is not a field such as x: int64")
        name = unnamed
        arrow = text
    nullable = not arrow.endswith(" not null")
    inside = _parse_inside(arrow.removesuffix(" not null"), level)
    return pa.field(name, inside, nullable)


def _parse_inside(text: str, level: int) -> pa.DataType:
    arrow = parse_arrow(text, level)
    if arrow is None:
        raise ValueError(
            f"{text!r:.80} is not a type in Arrow's words, such as int64, double, "
            "large_string or list<item: int64>"
        )
    return arrow


def _split(text: str) -> list[str]:
    """Split a text at its commas outside of brackets."""
    parts = []
    start = 0
    depth = 0
    for position, character in enumerate(text):
        if character in "<[(":
            depth += 1
        elif character in ">])":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    parts.append(text[start:].strip())
    return parts
