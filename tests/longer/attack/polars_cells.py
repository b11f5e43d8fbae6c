"""Read Polars columns cell by cell, without Arrow and without Python's datetimes, which are too coarse."""

from __future__ import annotations

import polars as pl
import pyarrow as pa

from tests.longer.attack import values
from tests.longer.attack.values import NANOSECONDS, Value


def cells(series: pl.Series) -> list[Value]:
    """Say what each cell means."""
    dtype = series.dtype
    if isinstance(dtype, pl.List):
        return _list(series, series.list.len().to_list())
    if isinstance(dtype, pl.Array):
        return _array(series)
    if isinstance(dtype, pl.Struct):
        return _struct(series)
    if isinstance(dtype, pl.Map):
        entries = cells(series.map.entries())
        return [value and ("map", tuple((entry[1][0][1], entry[1][1][1]) for entry in value[1])) for value in entries]
    if isinstance(dtype, pl.BaseExtension):
        return _extension(series)
    if isinstance(dtype, pl.Categorical | pl.Enum):
        return _plain(series.cast(pl.String), lambda x: ("str", x))
    if dtype.is_temporal():
        return _temporal(series)
    if isinstance(dtype, pl.Object):
        return [("unknown", "Object")] * len(series)
    return _plain(series, _READERS.get(dtype.base_type(), values.unknown))


FLOATS = {
    getattr(pl, name): pa.type_for_alias(name.lower())
    for name in ("Float16", "Float32", "Float64")
    if hasattr(pl, name)  # Float16 since Polars 1.36
}
_READERS = {
    pl.Boolean: lambda x: ("bool", x),
    pl.String: lambda x: ("str", x),
    pl.Binary: lambda x: ("bytes", x),
    pl.Decimal: values.decimal_value,
    **dict.fromkeys(FLOATS, values.float_value),
    **dict.fromkeys([pl.Int8, pl.Int16, pl.Int32, pl.Int64], lambda x: ("int", x)),
    **dict.fromkeys([pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64], lambda x: ("int", x)),
}


def _extension(series: pl.Series) -> list[Value]:
    stored = cells(series.ext.storage())
    if series.dtype.ext_name() == "arrow.uuid":
        return [value and ("uuid", value[1]) for value in stored]
    return stored


def _plain(series: pl.Series, make) -> list[Value]:
    return [None if x is None else make(x) for x in series.to_list()]


def _temporal(series: pl.Series) -> list[Value]:
    dtype, counts = series.dtype, series.to_physical().to_list()
    if isinstance(dtype, pl.Date):
        return [None if x is None else ("date", x) for x in counts]
    if isinstance(dtype, pl.Time):
        return [None if x is None else ("time", x) for x in counts]
    many = NANOSECONDS[dtype.time_unit]
    if isinstance(dtype, pl.Duration):
        return [None if x is None else ("dur", x * many) for x in counts]
    zone = dtype.time_zone and values.plain_zone(dtype.time_zone)
    return [None if x is None else ("ts", x * many, zone) for x in counts]


def _list(series: pl.Series, lengths: list[int | None]) -> list[Value]:
    filled = series.filter(series.is_not_null() & (series.list.len() > 0))
    items = iter(cells(filled.explode()) if len(filled) else ())
    return [None if n is None else ("list", tuple(next(items) for _ in range(n))) for n in lengths]


def _array(series: pl.Series) -> list[Value]:
    width = series.dtype.size
    lengths = [width if valid else None for valid in series.is_not_null().to_list()]
    if width == 0:
        return [None if n is None else ("list", ()) for n in lengths]
    as_lists = series.arr.to_list()
    return _list(as_lists, lengths)


def _struct(series: pl.Series) -> list[Value]:
    names = [field.name for field in series.dtype.fields]
    columns = [cells(series.struct.field(name)) for name in names]
    rows = zip(*columns, strict=True) if columns else [()] * len(series)
    return [
        ("struct", tuple(zip(names, row, strict=True))) if valid else None
        for row, valid in zip(rows, series.is_not_null().to_list(), strict=True)
    ]


def promised_type(dtype: pl.DataType) -> pa.DataType | None:
    """Say which Arrow type is to be stored; None where the column has to be refused."""
    if isinstance(dtype, pl.List):
        inner = promised_type(dtype.inner)
        return inner and pa.large_list(inner)
    if isinstance(dtype, pl.Array):
        inner = promised_type(dtype.inner)
        return inner and pa.list_(inner, dtype.size)
    if isinstance(dtype, pl.Struct):
        fields = [(field.name, promised_type(field.dtype)) for field in dtype.fields]
        return pa.struct(fields) if all(type_ for _, type_ in fields) else None
    if isinstance(dtype, pl.Map):
        key, value = promised_type(dtype.key), promised_type(dtype.value)
        return key and value and pa.map_(key, value)
    if isinstance(dtype, pl.Datetime):
        return pa.timestamp(dtype.time_unit, dtype.time_zone and values.plain_zone(dtype.time_zone))
    if isinstance(dtype, pl.Duration):
        return pa.duration(dtype.time_unit)
    if isinstance(dtype, pl.Decimal):
        return pa.decimal128(dtype.precision, dtype.scale)
    return _PLAIN_TYPES.get(dtype.base_type())


_PLAIN_TYPES = {
    pl.Boolean: pa.bool_(), pl.String: pa.large_string(), pl.Categorical: pa.large_string(), pl.Enum: pa.large_string(),
    pl.Binary: pa.large_binary(), pl.Date: pa.date32(), pl.Time: pa.time64("ns"),
    **FLOATS,
    pl.Int8: pa.int8(), pl.Int16: pa.int16(), pl.Int32: pa.int32(), pl.Int64: pa.int64(),
    pl.UInt8: pa.uint8(), pl.UInt16: pa.uint16(), pl.UInt32: pa.uint32(), pl.UInt64: pa.uint64(),
}  # fmt: skip
