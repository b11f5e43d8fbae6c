"""Rows that are added to a table: which of a frame's columns fit those of the table, and what they are cast to.

Columns go by name. A type becomes the table's within one family alone, so that a column is taken or refused by its
type, whatever its values are today; and each value must come back the same.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyarrow import types

from rt_frames._frames.convert import fits
from rt_frames._frames.refusals import Refusals
from rt_frames._names import did_you_mean
from rt_frames._schema.casts import family
from rt_frames._schema.data_type import map_types, storage
from rt_frames._schema.portable import to_portable
from rt_frames._text import Message, list_names
from rt_frames.errors import UnsupportedTypeError

_NUMBERS = ("integers", "floats", "decimals")


def fit(
    schema: pa.Schema, table: pa.Schema, asked: Mapping[str, pa.DataType], refusals: Refusals
) -> tuple[pa.Schema, dict[str, pa.DataType]]:
    """Return a schema with the nulls that a table allows, and the casts by which its columns become the table's."""
    if unknown := [name for name in schema.names if name not in table.names]:
        offer = did_you_mean(unknown[0], table.names).rstrip("?")
        raise ValueError(f"the table has no columns {list_names(unknown)} ({offer}); rename them, or leave them out")
    if lacking := [f.name for f in table if not f.nullable and f.name not in schema.names]:
        raise ValueError(f"columns {list_names(lacking)} of the table may not be null, and the frame has none of them")
    fields, casts = [], {}
    for field in schema:
        target = table.field(field.name)
        fields.append(field.with_nullable(field.nullable and target.nullable))
        with refusals.of(field.name):
            if (cast := _cast(field, target.type, asked.get(field.name))) is not None:
                casts[field.name] = cast
    return pa.schema(fields), casts


def _cast(field: pa.Field, target: pa.DataType, asked: pa.DataType | None) -> pa.DataType | None:
    """Return what a column is cast to; None where it has the table's type, of which its service tells the storage."""
    have = to_portable(field.type, field.name) if asked is None else to_portable(asked, field.name)
    if types.is_null(have):
        return target
    stored, wanted = (map_types(arrow, storage) for arrow in (have, target))
    if stored == wanted:
        return None
    if asked is None and fits(stored, wanted, _are_kin):
        return pa.json_(wanted) if isinstance(have, pa.JsonType) else target
    text = f"column {field.name!r} is {have}, and {target} in the table"
    raise UnsupportedTypeError(Message(text, "cast it first, or pass {}", dtypes={field.name: str(target)}))


def _are_kin(have: pa.DataType, target: pa.DataType) -> bool:
    families = {family(have), family(target)}
    return "" not in families and (len(families) == 1 or families <= {*_NUMBERS})
