"""A cast that a plan calls exact keeps values at the edges, in the real engine."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import types

import rt_frames as rt

DAY = 86_400
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
TEXT = ["", "a", "ä€😀", "x" * 100]
BYTES = [b"", b"\xff\0", b"a" * 100]
INFINITE = float("inf")
NAN = float("nan")
HALFS = [0.0, -0.0, 1.5, 65504.0, 6e-8, INFINITE, NAN]
FLOATS = [0.0, -0.0, 0.1, 3.4028234663852886e38, 1e-45, INFINITE, NAN, 16777217.0]
DOUBLES = [0.0, -0.0, 0.1, 1e300, 5e-324, INFINITE, NAN, 2.0**53 + 2]
DAYS = [-(2**31), -719_162, -1, 0, 106_752, 2_932_896, 2**31 - 1]
MILLISECOND_DAYS = [day * 86_400_000 for day in (-719_162, -1, 0, 1, 2_932_896)]
SPANS = [0, 1, -1, 2**63 - 1, 1 - 2**63]


def times(unit: str) -> list[int]:
    return [0, 1, DAY * PER_SECOND[unit] - 1]


def instants(unit: str) -> list[int]:
    k = PER_SECOND[unit]
    found = [0, 1, -1, DAY * k - 1, 1_700_000_000 * k + k - 1]
    if unit == "ns":
        return [*found, 2**63 - 1, 1 - 2**63]
    return [*found, 253_402_300_799 * k + k - 1, -62_135_596_800 * k]


def whole(arrow: pa.DataType) -> list[int]:
    limits = np.iinfo(arrow.to_pandas_dtype())
    low = int(limits.min)
    high = int(limits.max)
    return [low, low + 1, 0, 1, high - 1, high]


def decimals(arrow: pa.DataType) -> list[Decimal]:
    most = Decimal(10**arrow.precision - 1).scaleb(-arrow.scale, Context(prec=80))
    return [Decimal(0), most, most.copy_negate(), Decimal(125).scaleb(-arrow.scale)]


def lists_of(*items: pa.DataType) -> dict[pa.DataType, list[Any]]:
    made = {}
    for item in items:
        made[pa.list_(item)] = [FLAT[item], []]
        made[pa.large_list(item)] = [FLAT[item], []]
    return made


# values at the edges of types, as what they are stored as
FLAT: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, False],
    pa.binary(4): [b"\0\1\2\xff"],
    pa.float16(): [np.float16(value) for value in HALFS],
    pa.float32(): FLOATS,
    pa.float64(): DOUBLES,
    pa.string(): TEXT,
    pa.large_string(): TEXT,
    pa.dictionary(pa.int32(), pa.large_string()): TEXT,
    pa.binary(): BYTES,
    pa.large_binary(): BYTES,
    pa.dictionary(pa.int32(), pa.int64()): [-(2**63), 0, 2**63 - 1],
    pa.date32(): DAYS,
    pa.date64(): MILLISECOND_DAYS,
    pa.time32("s"): times("s"),
    pa.time32("ms"): times("ms"),
    pa.time64("us"): times("us"),
    pa.time64("ns"): times("ns"),
}
for whole_type in (pa.int8(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64()):
    FLAT[whole_type] = whole(whole_type)
for unit_of_time in PER_SECOND:
    FLAT[pa.timestamp(unit_of_time)] = instants(unit_of_time)
    FLAT[pa.timestamp(unit_of_time, "UTC")] = instants(unit_of_time)
    FLAT[pa.timestamp(unit_of_time, "Europe/Berlin")] = instants(unit_of_time)
    FLAT[pa.duration(unit_of_time)] = SPANS
for digits in ((10, 2), (10, 1), (12, 4), (38, 0)):
    FLAT[pa.decimal128(*digits)] = decimals(pa.decimal128(*digits))
FLAT[pa.decimal256(40, 4)] = decimals(pa.decimal256(40, 4))
LISTED = [pa.int64(), pa.int8(), pa.float32(), pa.float64(), pa.date32()]
EDGES = FLAT | lists_of(*LISTED, pa.timestamp("us"), pa.timestamp("ms"))


def stored_as(arrow: pa.DataType) -> pa.DataType:
    return pa.int32() if arrow.bit_width == 32 else pa.int64()


def array(arrow: pa.DataType, values: list[Any]) -> pa.Array:
    if types.is_list(arrow) or types.is_large_list(arrow):
        items = [array(arrow.value_type, value) for value in values]
        kind = pa.ListArray if types.is_list(arrow) else pa.LargeListArray
        offsets = np.cumsum([0, *map(len, items)])
        return kind.from_arrays(offsets, pa.concat_arrays(items), type=arrow)
    if types.is_temporal(arrow):
        return pa.array(values, stored_as(arrow)).view(arrow)
    if types.is_dictionary(arrow):
        words = pa.array(values, arrow.value_type)
        return pa.DictionaryArray.from_arrays(range(len(values)), words)
    return pa.array(values, arrow)


def meant(found: pa.Array) -> list[Any]:
    """Return what values mean, whatever their type: nanoseconds, numbers, text."""
    arrow = found.type
    if types.is_list(arrow) or types.is_large_list(arrow):
        return [None if one is None else meant(one.values) for one in found]
    if types.is_dictionary(arrow):
        return meant(found.dictionary_decode())
    if types.is_temporal(arrow):
        counts = found.view(stored_as(arrow)).to_pylist()
        return [count * nanoseconds(arrow) for count in counts]
    if types.is_floating(arrow):
        return [repr(float(value)) for value in found.to_pylist()]
    return found.to_pylist()


def nanoseconds(arrow: pa.DataType) -> int:
    """Return how long the unit of a type is."""
    if types.is_date32(arrow):
        return DAY * 10**9
    if types.is_date64(arrow):
        return 10**6
    return 10**9 // PER_SECOND[arrow.unit]


def cast(before: pa.DataType, after: Any) -> rt.Alteration:
    return rt.Alteration("c", data_type=after, before=before)


def is_kept(folder: str, value: pa.Array, after: pa.DataType) -> bool | None:
    """Cast a stored value; return whether it means the same, or None if refused."""
    table = lance.dataset(folder, version=1)
    table.restore()
    try:
        table.alter_columns({"path": "c", "data_type": after})
    except OSError:  # the engine refuses what does not fit
        return None
    found = table.to_table()["c"].combine_chunks()
    return meant(found) == meant(value)


@pytest.mark.parametrize("step", [19, pytest.param(1, marks=pytest.mark.long)])
def test_a_cast_that_is_neither_refused_nor_lossy_changes_no_value(tmp_path, step):
    wrong = []
    kept = 0
    for i, (before, its) in enumerate(EDGES.items()):
        others = [arrow for arrow in EDGES if arrow != before]
        for n, value in enumerate(its):
            folder = str(tmp_path / f"{i}-{n}")
            stored = array(before, [value])
            lance.write_dataset(pa.table({"c": stored}), folder)
            for after in others[(i + n) % step :: step]:
                if cast(before, after).refused or cast(before, after).loss:
                    continue
                is_same = is_kept(folder, stored, after)
                kept += is_same is True
                if is_same is False:
                    wrong.append((str(before), str(after), value))
    assert wrong == []
    assert kept > 700 / step


US = pa.timestamp("us")
BERLIN = pa.timestamp("us", "Europe/Berlin")
BERLIN_SECONDS = pa.timestamp("s", "Europe/Berlin")
CENTS = pa.decimal128(10, 2)
DIMES = pa.decimal128(10, 1)
LOSSY = [
    (pa.float64(), pa.float32(), "keeps 7 digits, and makes the largest numbers inf"),
    (US, pa.timestamp("ms"), "microseconds would be cut to milliseconds, towards 1970"),
    (pa.time64("ns"), pa.time32("s"), "nanoseconds would be cut to seconds"),
    (pa.duration("us"), pa.duration("s"), "would be cut to seconds, towards 0"),
    (CENTS, DIMES, "2 decimal places would be rounded to 1"),
    (US, pa.date32(), "the time of day would be lost"),
    (US, pa.time64("us"), "the day would be lost"),
    (US, BERLIN, "clock times would be taken for those of Europe/Berlin"),
    (BERLIN, US, "clock times in Europe/Berlin would become UTC's"),
    (pa.date32(), BERLIN_SECONDS, "midnight would become another time in Europe"),
    (pa.date64(), pa.date32(), "dates in far years would wrap"),
]


def alone(arrow: pa.DataType) -> pa.DataType:
    return arrow


def two_lists(arrow: pa.DataType) -> pa.DataType:
    return pa.large_list(pa.list_(arrow))


@pytest.mark.parametrize(("before", "after", "words"), LOSSY)
@pytest.mark.parametrize("inside", [alone, pa.list_, two_lists])
def test_what_a_cast_would_lose_is_said(before, after, words, inside):
    change = cast(inside(before), inside(after))
    assert words in change.loss
    assert change.refused is None


WRONG = [
    (pa.date32(), pa.timestamp("ns")),
    (pa.date64(), pa.timestamp("us", "UTC")),
    (pa.timestamp("s"), pa.date64()),
]


@pytest.mark.parametrize("inside", [alone, pa.list_])
@pytest.mark.parametrize(("before", "after"), WRONG)
def test_what_the_engine_does_wrong_without_a_word_is_refused(before, after, inside):
    assert cast(inside(before), inside(after)).refused
