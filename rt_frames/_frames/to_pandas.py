"""Arrow data → a pandas frame, in NumPy's dtypes, else pandas', else Arrow's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from rt_frames._schema.data_type import INTEGERS
from rt_frames._schema.numpy_dtype import numpy_to_arrow
from rt_frames._schema.pandas_dtype import pandas_to_arrow
from rt_frames._schema.portable import categorical_type
from rt_frames.errors import UnsupportedTypeError

_NULLABLE: dict[pa.DataType, Any] = {pa.bool_(): pd.BooleanDtype()}
for _name in INTEGERS:
    # Int64 and UInt64
    _dtype = pd.api.types.pandas_dtype(_name.title().replace("i", "I"))
    _NULLABLE[pa.type_for_alias(_name)] = _dtype
# types that Arrow converts without loss: numbers, timestamps, durations, text
_LOSSLESS = (
    types.is_boolean,
    types.is_integer,
    types.is_floating,
    types.is_timestamp,
    types.is_duration,
    types.is_string,
    types.is_large_string,
)


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Convert to a frame. Integers and booleans with nulls get nullable dtypes."""
    columns = dict(enumerate(map(_series, table.columns)))
    frame = pd.DataFrame(columns, index=pd.RangeIndex(len(table)), copy=False)
    names = table.column_names
    frame.columns = pd.Index(names) if names else pd.Index([], dtype=object)
    return frame


def read_type(arrow: pa.DataType) -> pa.DataType | None:
    """Return the type in which pandas sends what it reads as a type, if it can."""
    if types.is_dictionary(arrow):
        value = read_type(arrow.value_type)
        return None if value is None else categorical_type(value)
    if types.is_string(arrow) or types.is_large_string(arrow):
        # objects in pandas 2
        return pa.large_string()
    dtype = _series(pa.chunked_array([], arrow)).dtype
    try:
        if isinstance(dtype, np.dtype):
            return numpy_to_arrow(dtype, "c")
        return pandas_to_arrow(dtype, "c")
    except UnsupportedTypeError:
        return None


def _series(column: pa.ChunkedArray) -> Any:
    arrow = column.type
    if column.null_count and arrow in _NULLABLE:
        return column.to_pandas(types_mapper=_NULLABLE.get)
    if any(is_kind(arrow) for is_kind in _LOSSLESS):
        series = column.to_pandas()
        # Arrow's own memory, which is read-only (pyarrow 26)
        is_shared = column.num_chunks == 1 and types.is_primitive(arrow)
        return series.copy() if is_shared else series
    if types.is_dictionary(arrow):
        try:
            return column.to_pandas()
        except ValueError:
            # the engine concatenates the dictionaries of pages, which may share values
            # (pylance 14)
            return _with_each_category_once(column).to_pandas()
    return pd.Series(pd.arrays.ArrowExtensionArray(column))


def _with_each_category_once(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the same values by one dictionary, in the order of the first."""
    words = pa.chunked_array([chunk.dictionary for chunk in column.chunks])
    words = words.unique().drop_null()
    options = pc.SetLookupOptions(words, skip_nulls=True)
    codes = pc.call_function("index_in", [column.cast(words.type)], options)
    return pa.chunked_array(
        [pa.DictionaryArray.from_arrays(chunk, words) for chunk in codes.chunks]
    )
