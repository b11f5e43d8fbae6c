"""Every layout that Arrow knows for the same values, nested in every way, becomes the portable one."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rt_frames._frames.any_frame import open_source
from rt_frames._schema.portable import portable

VIEWS = pa.list_view(pa.string_view())
INNER = {
    "string view": pa.array(["a", None, "a text that is too long to lie in a view"], pa.string_view()),
    "coded": pa.array(["a", None, "b"]).dictionary_encode(),
    "coded views": pa.DictionaryArray.from_arrays(pa.array([0, None, 0], pa.int8()), pa.array(["a"], pa.string_view())),
    "coded lists": pa.DictionaryArray.from_arrays([0, None, 1], pa.array([[1], [2, None]])),
    "list view": pa.array([["a"], None, []], VIEWS),
    "list view out of order": pa.ListViewArray.from_arrays([1, 0, 0], [1, 2, 0], pa.array([["x"], None], VIEWS)),
    "large list view": pa.array([[1], None, []], pa.large_list_view(pa.int8())),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([1, 3], pa.int32()), pa.array([1, None], pa.int8())),
    "decimal": pa.array([1, None, 2], pa.decimal64(15, 0)),
    "extension": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, None, 0], pa.int8())),
    "map of views": pa.array([[("a", "b")], None, []], pa.map_(pa.string_view(), pa.string_view())),
}
WRAPPED = {
    "alone": lambda a: a,
    "list": lambda a: pa.ListArray.from_arrays(pa.array([0, 2, None, 3], pa.int32()), a),
    "large list": lambda a: pa.LargeListArray.from_arrays(pa.array([0, 2, None, 3], pa.int64()), a),
    "fixed-size list": lambda a: pa.FixedSizeListArray.from_arrays(pa.concat_arrays([a, a, a]), 3),
    "struct": lambda a: pa.StructArray.from_arrays([a], ["x"], mask=pa.array([False, False, True])),
    "map": lambda a: pa.MapArray.from_arrays(pa.array([0, 2, 2, 3], pa.int32()), pa.array(["a", "b", "c"]), a),
    "list view": lambda a: pa.ListViewArray.from_arrays([0, 2, 0], [2, 1, 1], a),
}


@pytest.mark.parametrize("wrap", WRAPPED.values(), ids=WRAPPED)
@pytest.mark.parametrize("inner", INNER.values(), ids=INNER)
@pytest.mark.parametrize("start", [0, 1])
def test_the_values_stay_whatever_the_layout(inner, wrap, start):
    array = wrap(inner)
    want = portable(array.type)
    source = open_source(pa.table({"c": array.slice(start)}))
    (batch,) = source.batches()
    batch.validate(full=True)
    assert batch.schema.types == source.schema.types == [want]
    plain = [None if v is None else bool(v) if isinstance(v, bool) else v for v in array.to_pylist()]
    assert batch.column(0).to_pylist() == plain[start:]
