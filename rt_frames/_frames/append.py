"""Rows for an existing table: match a frame's columns with the table's, and choose their casts.

Columns are matched by name. Types are cast only within a family, so a column is accepted or refused by its type,
whatever its values; and each value must survive the cast.
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
from rt_frames.errors import AlterationError, UnsupportedTypeError

_NUMBERS = ("integers", "floats", "decimals")


def fit(
    schema: pa.Schema, table: pa.Schema, asked: Mapping[str, pa.DataType], refusals: Refusals
) -> tuple[pa.Schema, dict[str, pa.DataType]]:
    """Return a schema with the nulls that a table allows, and the casts by which its columns become the table's."""
    if unknown := [name for name in schema.names if name not in table.names]:
        offer = did_you_mean(unknown[0], table.names).rstrip("?")
        raise AlterationError(f"not a column of the table: {list_names(unknown)} ({offer}); rename or leave out")
    if lacking := [f.name for f in table if not f.nullable and f.name not in schema.names]:
        raise AlterationError(f"not null in the table, and missing in the frame: {list_names(lacking)}; add them")
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
    if asked is None and fits(stored, wanted, _same_family):
        return pa.json_(wanted) if isinstance(have, pa.JsonType) else target
    text = f"column {field.name!r} is {have}, and {target} in the table"
    if types.is_nested(target) or types.is_dictionary(target):  # these have no name to pass
        raise UnsupportedTypeError(f"{text}; make it alike first")
    raise UnsupportedTypeError(Message(text, "cast it first, or pass {}", dtypes={field.name: str(target)}))


def _same_family(have: pa.DataType, target: pa.DataType) -> bool:
    families = {family(have), family(target)}
    return "" not in families and (len(families) == 1 or families <= {*_NUMBERS})
