"""An Arrow array in any layout → the same values in the portable layout of its type.

Arrow's own cast does most of it. Not the layouts below, at any depth: it has no cast out of dictionaries of
nested values, and out of list views and run-end-encoding inside lists it makes arrays that are too short.
Lists that hold such a layout are taken apart, their items converted, and put together again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def converted(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Give the values of an array in another type."""
    import pyarrow as pa
    import pyarrow.types as is_

    array = _unwrapped(array, target)
    if array.type == target:
        return array
    if is_.is_struct(target) and is_.is_struct(array.type):
        children = [converted(array.field(i), target.field(i).type) for i in range(target.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null())
    if not _is_beyond_arrow(array.type):
        return array.cast(target)
    if is_.is_fixed_size_list(array.type):
        size = array.type.list_size
        items = converted(array.values.slice(array.offset * size, len(array) * size), target.value_type)
        return pa.FixedSizeListArray.from_arrays(items, type=target, mask=array.is_null())
    return _map(array, target) if is_.is_map(target) else _list(array, target)


def same_values(one: pa.DataType, other: pa.DataType) -> bool:
    """Tell whether two types hold the same values, coded by a dictionary or not, as text of either width."""
    return bool(one == other) or bool(_meaning(one) == _meaning(other))


def _unwrapped(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Take off what a type wraps around the values of another one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(array, pa.ExtensionArray) and not isinstance(target, pa.BaseExtensionType):
        return _unwrapped(array.storage, target)
    if pa.types.is_run_end_encoded(array.type):
        return _unwrapped(pc.call_function("run_end_decode", [array]), target)
    if pa.types.is_dictionary(array.type) and pa.types.is_nested(target):
        return _unwrapped(array.dictionary.take(array.indices), target)
    return array


def _is_beyond_arrow(arrow: pa.DataType) -> bool:
    import pyarrow as pa
    import pyarrow.types as is_

    if is_.is_dictionary(arrow):
        return bool(is_.is_nested(arrow.value_type))
    beyond = (is_.is_run_end_encoded, is_.is_list_view, is_.is_large_list_view)
    if isinstance(arrow, pa.BaseExtensionType) or any(is_beyond(arrow) for is_beyond in beyond):
        return True
    return any(_is_beyond_arrow(arrow.field(i).type) for i in range(arrow.num_fields))


def _list(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Put a list or list view together again around converted items."""
    import pyarrow as pa

    items = converted(array.flatten(), target.value_type)
    kind, width = (pa.ListArray, pa.int32()) if pa.types.is_list(target) else (pa.LargeListArray, pa.int64())
    return kind.from_arrays(_offsets(array, width), items, type=target, mask=array.is_null())


def _map(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Put a map together again around converted keys and items."""
    import pyarrow as pa

    pairs = target.field(0).type
    parts = [converted(part, pairs.field(i).type) for i, part in enumerate((array.keys, array.items))]
    entries = pa.StructArray.from_arrays(parts, fields=list(pairs))
    return pa.Array.from_buffers(target, len(array), array.buffers()[:2], offset=array.offset, children=[entries])


def _offsets(array: pa.Array, width: pa.DataType) -> pa.Array:
    """Tell where each list starts once their items lie one behind the other, and where the last one ends."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths = pc.call_function("list_value_length", [array]).fill_null(0).cast(pa.int64())
    return pa.concat_arrays([pa.array([0], pa.int64()), pc.call_function("cumulative_sum", [lengths])]).cast(width)


def _meaning(arrow: pa.DataType) -> pa.DataType:
    """Give the one type that stands for all in which the same values can lie."""
    import pyarrow as pa
    import pyarrow.types as is_

    if is_.is_dictionary(arrow):
        return _meaning(arrow.value_type)
    if is_.is_string(arrow):
        return pa.large_string()
    if is_.is_struct(arrow):
        return pa.struct([field.with_type(_meaning(field.type)) for field in arrow])
    if is_.is_fixed_size_list(arrow):
        return pa.list_(arrow.value_field.with_type(_meaning(arrow.value_type)), arrow.list_size)
    if is_.is_list(arrow) or is_.is_large_list(arrow):
        return pa.large_list(arrow.value_field.with_type(_meaning(arrow.value_type)))
    return arrow
