"""Match a frame's columns with a table's by name, and choose the casts.

`convert.py` decides batch by batch, with `kinds.py`, whether values may be cast: only
within a family of types, and exactly. A column without values fits every column.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyarrow import types

from rt_frames._names import list_unknown
from rt_frames._schema.casts import family
from rt_frames._schema.data_type import map_types, storage
from rt_frames._schema.portable import to_portable
from rt_frames._text import list_names
from rt_frames._values.kinds import differs_in_layout_only, table_type_error
from rt_frames._values.refusals import Refusals
from rt_frames.errors import AlterationError, UnsupportedTypeError


def match_columns(
    schema: pa.Schema,
    table: pa.Schema,
    requested: Mapping[str, pa.DataType],
    refusals: Refusals,
    *,
    add_columns: bool = False,
) -> tuple[pa.Schema, dict[str, pa.DataType]]:
    """Return the frame's schema as the table allows nulls, and casts to its types.

    With ``add_columns``, columns that the table lacks keep their types.
    """
    targets = {field.name: field for field in table}
    if not add_columns:
        _check_known(schema.names, targets)
    _check_required(schema.names, table)
    fields = []
    casts = {}
    for field in schema:
        target = targets.get(field.name)
        if target is None:
            fields.append(field.with_nullable(True))
            continue
        fields.append(field.with_nullable(field.nullable and target.nullable))
        try:
            cast = _cast_target(field, target.type, requested.get(field.name))
            if cast is not None:
                casts[field.name] = cast
        except UnsupportedTypeError as error:
            refusals.setdefault(field.name, error)
    return pa.schema(fields), casts


def _check_known(names: list[str], targets: Mapping[str, pa.Field]) -> None:
    unknown = [name for name in names if name not in targets]
    if unknown:
        text = f"the table has no column {list_unknown(unknown, targets)}"
        # Lance has no two columns that differ only in case (pylance 14)
        lower_case = {name.lower() for name in targets}
        if any(name.lower() in lower_case for name in unknown):
            raise AlterationError(f"{text}; rename it")
        raise AlterationError(
            f"{text}; rename it, leave it out, or pass add_columns=True to add it"
        )


def _check_required(names: list[str], table: pa.Schema) -> None:
    sent = set(names)
    required = [field.name for field in table if not field.nullable]
    missing = [name for name in required if name not in sent]
    if missing:
        raise AlterationError(
            f"columns that must not be null in the table are missing: {list_names(missing)}; add them"
        )


def _cast_target(
    field: pa.Field, target: pa.DataType, requested: pa.DataType | None
) -> pa.DataType | None:
    """Return the type to cast a column to.

    None if the service would describe the column's own type in the same way.
    """
    have = to_portable(field.type if requested is None else requested, field.name)
    # == ignores the names of items, which the engine compares (pyarrow 26)
    if have.equals(target, check_metadata=True):
        return None
    if types.is_null(have):
        return target
    wanted = map_types(target, storage)
    stored = map_types(have, storage)
    is_stored_alike = stored.equals(wanted, check_metadata=True)
    if requested is not None and not differs_in_layout_only(stored, wanted):
        raise table_type_error(have, target, field.name, is_requested=True)
    # some services describe only the storage of extension types
    if wanted == target and is_stored_alike:
        return None
    if isinstance(have, pa.JsonType) and family(target) == "text":
        return None
    return target
