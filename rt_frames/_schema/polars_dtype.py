"""A Polars dtype → the Arrow type that a column of it is sent in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rt_frames._schema.portable import coded, refuse

if TYPE_CHECKING:
    import pyarrow as pa


def from_polars(dtype: Any, path: str) -> pa.DataType | None:
    """Give the Arrow type; None for what is no dtype of Polars."""
    import polars as pl

    if isinstance(dtype, type) and issubclass(dtype, pl.DataType):
        dtype = _polars_instance(dtype, path)
    if not isinstance(dtype, pl.DataType):
        return None
    if isinstance(dtype, pl.BaseExtension):
        raise refuse(path, f"Polars' {dtype}", "take what it is made of, with .ext.storage()")
    if dtype.is_nested():
        return _from_polars_nested(dtype, path)
    return _from_polars_flat(dtype, path)


_SPELLED = {
    "List": "pl.List(pl.Int64)",
    "Array": "pl.Array(pl.Float32, 3)",
    "Struct": 'pl.Struct({"x": pl.Int64})',
    "Map": "pl.Map(pl.String, pl.Int64)",
    "Enum": 'pl.Enum(["a", "b"])',
    "Decimal": "pl.Decimal(10, 2)",
}


def _polars_instance(dtype: type, path: str) -> Any:
    name = dtype.__name__
    if dtype.__module__.startswith("polars.") and name not in _SPELLED and not name.endswith("Extension"):
        return dtype()
    raise refuse(path, f"Polars' {name} without parameters", f"say {_SPELLED.get(name, 'an instance of it')}")


def _from_polars_nested(dtype: Any, path: str) -> pa.DataType:
    import polars as pl
    import pyarrow as pa

    def inside(name: str, inner: Any) -> pa.DataType:
        at = f"{path}.{name}" if path else name
        found = from_polars(inner, at)
        if found is None:
            raise refuse(at, f"{inner!r:.80} inside a Polars dtype", "give a dtype of Polars")
        return found

    if isinstance(dtype, pl.Struct):
        return pa.struct([(field.name, inside(field.name, field.dtype)) for field in dtype.fields])
    # Polars has maps only lately
    if type(dtype).__name__ == "Map":
        return pa.map_(inside("key", dtype.key), inside("value", dtype.value))
    item = inside("item", dtype.inner)
    return pa.list_(item, dtype.size) if isinstance(dtype, pl.Array) else pa.large_list(item)


def _from_polars_flat(dtype: Any, path: str) -> pa.DataType:
    import polars as pl
    import pyarrow as pa

    if isinstance(dtype, pl.Datetime):
        return pa.timestamp(dtype.time_unit, dtype.time_zone)
    if isinstance(dtype, pl.Duration):
        return pa.duration(dtype.time_unit)
    if isinstance(dtype, pl.Decimal):
        if dtype.precision is None:
            raise refuse(path, "Polars' Decimal without precision", "say pl.Decimal(10, 2)")
        return pa.decimal128(dtype.precision, dtype.scale)
    if isinstance(dtype, pl.Categorical | pl.Enum):
        return coded(pa.large_string())
    name = _POLARS.get(type(dtype).__name__)
    if name is None:
        advice = {"Int128": "cast it to pl.Int64 or pl.Decimal(38, 0)", "UInt128": "cast it to pl.UInt64"}
        what = advice.get(type(dtype).__name__, "cast it to a type of Arrow's, such as pl.String")
        raise refuse(path, f"Polars' {dtype}", what)
    return pa.type_for_alias(name)


_POLARS = {
    **{f"{sign}{bits}": f"{sign}{bits}".lower() for sign in ("Int", "UInt") for bits in (8, 16, 32, 64)},
    **{f"Float{bits}": f"float{bits}" for bits in (16, 32, 64)},
    "Boolean": "bool",
    "String": "large_string",
    "Binary": "large_binary",
    "Date": "date32",
    "Time": "time64[ns]",
    "Null": "null",
}
