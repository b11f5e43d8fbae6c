"""The form of an Arrow type that every reader of a table understands.

::

    string_view, binary_view        → large_string, large_binary
    list_view, large_list_view      → list, large_list
    run-end-encoded                 → its value type
    decimal32, decimal64            → decimal128
    dictionary of views             → dictionary of the large type; of nested values, those values
    extension types                 → their storage; arrow.uuid and arrow.json stay
    union, interval                 → none: an error that says what to cast to
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from rt_frames.errors import UnsupportedTypeError

if TYPE_CHECKING:
    import pyarrow as pa


def refuse(path: str, what: Any, advice: str) -> UnsupportedTypeError:
    """Say that a type cannot be sent, in which column, and what helps."""
    column = f"column {path!r}: " if path else ""
    return UnsupportedTypeError(f"{column}{what} cannot be sent; {advice}")


@functools.lru_cache(maxsize=1024)
def is_plain(arrow: pa.DataType) -> bool:
    """Tell whether a type has no parts and is portable as it is: asked once a type, not once a column."""
    import pyarrow.types as is_

    tests = (is_.is_integer, is_.is_floating, is_.is_boolean, is_.is_temporal, is_.is_large_string, is_.is_string)
    return any(test(arrow) for test in tests) and not is_.is_interval(arrow)


def portable(arrow: pa.DataType, path: str = "") -> pa.DataType:
    """Give the form of an Arrow type that is sent, or say which column has none."""
    import pyarrow as pa
    import pyarrow.types as is_

    # extension types first: many cannot be hashed
    if isinstance(arrow, pa.BaseExtensionType):
        return _portable_extension(arrow, path)
    if is_plain(arrow):
        return arrow
    if is_.is_run_end_encoded(arrow):
        return portable(arrow.value_type, path)
    if is_.is_nested(arrow):
        return _portable_nested(arrow, path)
    if str(arrow) in ("string_view", "binary_view"):
        return pa.large_string() if str(arrow) == "string_view" else pa.large_binary()
    if is_.is_decimal(arrow) and arrow.bit_width < 128:
        return pa.decimal128(arrow.precision, arrow.scale)
    if is_.is_dictionary(arrow):
        value = portable(arrow.value_type, path)
        return value if is_.is_nested(value) else pa.dictionary(arrow.index_type, value, arrow.ordered)
    if is_.is_interval(arrow):
        raise refuse(path, f"Arrow's {arrow}", "cast it to a duration, or to a struct of its parts")
    return arrow


def _portable_nested(arrow: pa.DataType, path: str) -> pa.DataType:
    import pyarrow as pa
    import pyarrow.types as is_

    if is_.is_union(arrow):
        raise refuse(path, f"Arrow's {arrow}", "make one column of each of its types")
    if is_.is_map(arrow):
        key, value = _portable_field(arrow.key_field, path), _portable_field(arrow.item_field, path)
        return pa.map_(key, value, keys_sorted=arrow.keys_sorted)
    children = [_portable_field(arrow.field(i), path) for i in range(arrow.num_fields)]
    if is_.is_struct(arrow):
        return pa.struct(children)
    if is_.is_fixed_size_list(arrow):
        return pa.list_(children[0], arrow.list_size)
    large = is_.is_large_list(arrow) or str(arrow).startswith("large_list_view")
    return pa.large_list(children[0]) if large else pa.list_(children[0])


def _portable_field(field: pa.Field, path: str) -> pa.Field:
    import pyarrow as pa

    return pa.field(field.name, portable(field.type, f"{path}.{field.name}" if path else field.name), field.nullable)


def _portable_extension(arrow: pa.BaseExtensionType, path: str) -> pa.DataType:
    import pyarrow as pa

    if arrow.extension_name == "arrow.uuid":
        return arrow
    if arrow.extension_name == "arrow.json":
        return pa.json_(portable(arrow.storage_type, path))
    if arrow.extension_name in _PANDAS_ONLY:
        raise refuse(
            path, f"pandas' {_PANDAS_ONLY[arrow.extension_name]}", PANDAS_ADVICE[_PANDAS_ONLY[arrow.extension_name]]
        )
    return portable(arrow.storage_type, path)


_PANDAS_ONLY = {"pandas.period": "PeriodDtype", "pandas.interval": "IntervalDtype"}
PANDAS_ADVICE = {
    "SparseDtype": "make it dense first, with .sparse.to_dense()",
    "PeriodDtype": "convert it with .dt.to_timestamp(), or .astype(str)",
    "IntervalDtype": "make two columns of it, .array.left and .array.right, or use .astype(str)",
}


def coded(value: pa.DataType) -> pa.DataType:
    """Give the one form that categories have in both libraries; values of other types are sent as they are."""
    import pyarrow as pa

    if pa.types.is_string(value) or pa.types.is_large_string(value):
        return pa.dictionary(pa.int32(), pa.large_string())
    return pa.dictionary(pa.int32(), value) if pa.types.is_integer(value) else value
