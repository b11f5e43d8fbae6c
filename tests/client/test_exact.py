"""One exactness: what fits a column as a row fits it as a value and as a key."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from rt_frames.errors import UnsupportedTypeError

HALF = Decimal("0.50")
QUARTER = Decimal("0.25")
DIME = pa.decimal128(3, 1)
EDGES = [  # a column of the table, that of the rows, a value that fits, and one that not
    (pa.int8(), pa.int64(), 127, 128),
    (pa.uint8(), pa.int8(), 0, -1),
    (pa.int64(), pa.uint64(), 2**63 - 1, 2**63),
    (pa.int8(), pa.float32(), 127.0, 127.5),
    (pa.uint64(), pa.decimal128(20, 0), 2**64 - 1, 2**64),
    (pa.float16(), pa.int16(), 2**11, 2**11 + 1),
    (pa.float32(), pa.int32(), 2**24, 2**24 + 1),
    (pa.float64(), pa.int64(), 2**53, 2**53 + 1),
    (pa.float64(), pa.uint64(), 2**63, 2**64 - 1),
    (pa.float32(), pa.float64(), 0.5, 0.1),
    (pa.float32(), pa.decimal128(3, 2), HALF, Decimal("0.10")),
    (DIME, pa.float64(), 0.5, 0.25),
    (DIME, pa.int64(), 99, 100),
    (DIME, pa.decimal128(3, 2), HALF, QUARTER),
    (pa.large_string(), pa.string(), "a", None),
    (pa.binary(2), pa.binary(), b"ab", b"abc"),
    (pa.date32(), pa.date64(), 86_400_000, None),
    (pa.timestamp("ms"), pa.timestamp("us"), 2000, 2001),
    (pa.timestamp("s", "UTC"), pa.timestamp("ms", "Asia/Tokyo"), 2000, 2001),
    (pa.time32("s"), pa.time32("ms"), 2000, 2001),
    (pa.duration("s"), pa.duration("ns"), 10**9, 1),
]


def column_of(value: object, arrow: pa.DataType) -> pa.Array:
    if pa.types.is_temporal(arrow):
        return pa.array([value], f"int{arrow.bit_width}").view(arrow)
    return pa.array([value], arrow)


@pytest.mark.parametrize(("stored", "sent", "fits", "fits_not"), EDGES, ids=str)
def test_rows_values_and_keys_fit_a_column_to_the_same_edge(
    place, name, stored, sent, fits, fits_not
):
    fitting = column_of(fits, sent)
    is_key = not pa.types.is_floating(stored) and not pa.types.is_duration(stored)
    writes = [
        {"if_exists": "append"},
        {"if_exists": "replace", "where": [("c", "in", fitting)]},
    ]
    if is_key:
        writes.append({"if_exists": "upsert", "on": "c"})
    table = place.create(name, pa.table({"c": pa.nulls(1, stored)}))
    for options in writes:
        place.create(name, pa.table({"c": fitting}), **options)
        assert table.count([("c", "in", fitting)]) == 1
    kept = place.read(name)
    assert kept["c"].type == stored
    assert kept["c"].drop_null().cast(sent).to_pylist() == fitting.to_pylist()
    if fits_not is None:
        return
    unfitting = column_of(fits_not, sent)
    for options in writes:
        with pytest.raises(UnsupportedTypeError, match="'c', row 0: "):
            place.create(name, pa.table({"c": unfitting}), **options)
    with pytest.raises(ValueError, match="does not fit column 'c'"):
        table.count([("c", "in", unfitting)])
    assert place.read(name).equals(kept)
