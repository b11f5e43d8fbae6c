"""A Polars dtype → the Arrow type in which its columns are sent."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa
from polars.datatypes import DataTypeClass

from rt_frames._names import join_path
from rt_frames._schema.data_type import check_level
from rt_frames._schema.portable import categorical_type, unsupported

# not yet in Polars 1.35
_FLOAT16 = getattr(pl, "Float16", ())
_EXTENSION = getattr(pl, "BaseExtension", ())
_MAP = getattr(pl, "Map", ())
_INTEGERS = (
    pl.Int8,
    pl.Int16,
    pl.Int32,
    pl.Int64,
    pl.UInt8,
    pl.UInt16,
    pl.UInt32,
    pl.UInt64,
)
_FLAT: dict[Any, pa.DataType] = {
    **{
        number: pa.type_for_alias(number.__name__.lower())
        for number in (*_INTEGERS, pl.Float32, pl.Float64)
    },
    _FLOAT16: pa.float16(),
    pl.Boolean: pa.bool_(),
    pl.String: pa.large_string(),
    pl.Binary: pa.large_binary(),
    pl.Date: pa.date32(),
    pl.Time: pa.time64("ns"),
    pl.Null: pa.null(),
}
_NESTED = (pl.List, pl.Array, pl.Struct, _MAP)
_EXAMPLES = {
    pl.List: "pl.List(pl.Int64)",
    pl.Array: "pl.Array(pl.Float32, 3)",
    pl.Struct: 'pl.Struct({"x": pl.Int64})',
    _MAP: "pl.Map(pl.String, pl.Int64)",
    pl.Enum: 'pl.Enum(["a", "b"])',
    pl.Decimal: "pl.Decimal(10, 2)",
}
_ADVICE = {
    pl.Int128: "cast it to pl.Int64 or pl.Decimal(38, 0)",
    pl.UInt128: "cast it to pl.UInt64 or pl.Decimal(38, 0)",
    pl.Object: "convert its values to text, with .map_elements(str, return_dtype=pl.String)",
    pl.DataType: "cast it to a type that Arrow has, such as pl.String",
}


def polars_to_arrow(
    dtype: pl.DataType | DataTypeClass, path: str, level: int = 0
) -> pa.DataType:
    """Return the Arrow type of a dtype, or raise if the dtype cannot be sent."""
    check_level(path, level)
    kind: Any = dtype if isinstance(dtype, DataTypeClass) else type(dtype)
    if kind in _FLAT:
        return _FLAT[kind]
    if isinstance(dtype, DataTypeClass):
        dtype = _instance(kind, path)
    if isinstance(dtype, pl.Datetime):
        return pa.timestamp(dtype.time_unit, dtype.time_zone)
    if isinstance(dtype, pl.Duration):
        return pa.duration(dtype.time_unit)
    if isinstance(dtype, pl.Decimal):
        return _from_decimal(dtype, path)
    if isinstance(dtype, pl.Categorical | pl.Enum):
        return categorical_type(pa.large_string())
    if isinstance(dtype, _EXTENSION):
        return _from_extension(dtype, path)
    if isinstance(dtype, _NESTED):
        return _from_nested(dtype, path, level + 1)
    advice = next(text for kind, text in _ADVICE.items() if isinstance(dtype, kind))
    raise unsupported(path, f"Polars' {dtype}", advice)


def _from_decimal(dtype: pl.Decimal, path: str) -> pa.DataType:
    # Polars refuses such a precision only in a column, not in a dtype (Polars 2.1)
    if not 0 < dtype.precision <= 38:
        advice = "pass pl.Decimal of 1 to 38 digits, or pyarrow.decimal256"
        raise unsupported(path, f"Polars' {dtype}", advice)
    return pa.decimal128(dtype.precision, dtype.scale)


def _from_extension(dtype: Any, path: str) -> pa.DataType:
    if dtype.ext_name() == "arrow.json":
        return pa.json_()
    raise unsupported(
        path, f"Polars' {dtype}", "convert it to its storage type, with .ext.storage()"
    )


def _instance(kind: type[pl.DataType], path: str) -> pl.DataType:
    """Return the dtype of a class that needs no parameters."""
    is_own = kind.__module__.startswith("polars.") and not issubclass(kind, _EXTENSION)
    if is_own and kind not in _EXAMPLES:
        return kind()
    example = _EXAMPLES.get(kind, "an instance of it")
    subject = f"Polars' {kind.__name__} without parameters"
    raise unsupported(path, subject, f"pass {example}")


def _from_nested(dtype: Any, path: str, level: int) -> pa.DataType:
    if isinstance(dtype, pl.Struct):
        return _from_struct(dtype, path, level)
    if isinstance(dtype, _MAP):
        key = polars_to_arrow(dtype.key, join_path(path, "key"), level + 1)
        value = polars_to_arrow(dtype.value, join_path(path, "value"), level + 1)
        return pa.map_(key, value)
    if isinstance(dtype, pl.Array) and dtype.size >= 2**31:
        advice = "pass pl.Array of fewer items, or pl.List"
        raise unsupported(path, f"Polars' {dtype}", advice)
    item = polars_to_arrow(dtype.inner, join_path(path, "item"), level)
    if isinstance(dtype, pl.Array):
        return pa.list_(item, dtype.size)
    return pa.large_list(item)


def _from_struct(dtype: pl.Struct, path: str, level: int) -> pa.DataType:
    fields = []
    for field in dtype.fields:
        if not isinstance(field, pl.Field):
            subject = f"a Struct of {dtype.fields!r:.80}"
            raise unsupported(path, subject, f"pass {_EXAMPLES[pl.Struct]}")
        arrow = polars_to_arrow(field.dtype, join_path(path, field.name), level)
        fields.append((field.name, arrow))
    return pa.struct(fields)
