"""A cast that a plan calls exact keeps values at the edges, in the real engine."""

from __future__ import annotations

import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import types

import rt_frames as rt

DAY = 86_400
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
TEXT = ["", "a", "ä€😀", "x" * 100]


def times(unit: str) -> list[int]:
    return [0, 1, DAY * PER_SECOND[unit] - 1]


def instants(unit: str) -> list[int]:
    k = PER_SECOND[unit]
    edges = (
        [2**63 - 1, 1 - 2**63]
        if unit == "ns"
        else [253_402_300_799 * k + k - 1, -62_135_596_800 * k]
    )
    return [0, 1, -1, DAY * k - 1, 1_700_000_000 * k + k - 1, *edges]


def whole(arrow: pa.DataType) -> list[int]:
    low, high = (
        np.iinfo(arrow.to_pandas_dtype()).min,
        np.iinfo(arrow.to_pandas_dtype()).max,
    )
    return [int(low), int(low) + 1, 0, 1, int(high) - 1, int(high)]


def decimals(arrow: pa.DataType) -> list[decimal.Decimal]:
    most = decimal.Decimal(10**arrow.precision - 1).scaleb(
        -arrow.scale, decimal.Context(prec=80)
    )
    return [
        decimal.Decimal(0),
        most,
        most.copy_negate(),
        decimal.Decimal(125).scaleb(-arrow.scale),
    ]


def edges() -> dict[pa.DataType, list[Any]]:
    """Give values at the edges of types, as what they are stored as."""
    made: dict[pa.DataType, list[Any]] = {
        pa.bool_(): [True, False],
        pa.binary(4): [b"\0\1\2\xff"],
    }
    made |= {
        t: whole(t)
        for t in map(pa.type_for_alias, ["int8", "int32", "int64", "uint8", "uint64"])
    }
    made[pa.float16()] = list(
        map(np.float16, [0.0, -0.0, 1.5, 65504.0, 6e-8, float("inf"), float("nan")])
    )
    made[pa.float32()] = [
        0.0,
        -0.0,
        0.1,
        3.4028234663852886e38,
        1e-45,
        float("inf"),
        float("nan"),
        16777217.0,
    ]
    made[pa.float64()] = [
        0.0,
        -0.0,
        0.1,
        1e300,
        5e-324,
        float("inf"),
        float("nan"),
        2.0**53 + 2,
    ]
    made |= dict.fromkeys(
        [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.large_string())],
        TEXT,
    )
    made |= {t: [b"", b"\xff\0", b"a" * 100] for t in (pa.binary(), pa.large_binary())}
    made[pa.dictionary(pa.int32(), pa.int64())] = [-(2**63), 0, 2**63 - 1]
    made[pa.date32()] = [-(2**31), -719_162, -1, 0, 106_752, 2_932_896, 2**31 - 1]
    made[pa.date64()] = [day * DAY * 1000 for day in (-719_162, -1, 0, 1, 2_932_896)]
    made |= {
        pa.timestamp(u, tz): instants(u)
        for u in PER_SECOND
        for tz in (None, "UTC", "Europe/Berlin")
    }
    made |= {pa.time32(u): times(u) for u in ("s", "ms")} | {
        pa.time64(u): times(u) for u in ("us", "ns")
    }
    made |= {pa.duration(u): [0, 1, -1, 2**63 - 1, 1 - 2**63] for u in PER_SECOND}
    for scale in ((10, 2), (10, 1), (12, 4), (38, 0)):
        made[pa.decimal128(*scale)] = decimals(pa.decimal128(*scale))
    made[pa.decimal256(40, 4)] = decimals(pa.decimal256(40, 4))
    listed = [
        pa.int64(),
        pa.int8(),
        pa.float32(),
        pa.float64(),
        pa.date32(),
        pa.timestamp("us"),
        pa.timestamp("ms"),
    ]
    made |= {
        kind(t): [made[t], []] for t in listed for kind in (pa.list_, pa.large_list)
    }
    return made


def array(arrow: pa.DataType, values: list[Any]) -> pa.Array:
    if types.is_list(arrow) or types.is_large_list(arrow):
        items = [array(arrow.value_type, value) for value in values]
        kind = pa.ListArray if types.is_list(arrow) else pa.LargeListArray
        return kind.from_arrays(
            np.cumsum([0, *map(len, items)]), pa.concat_arrays(items), type=arrow
        )
    if types.is_temporal(arrow):
        return pa.array(
            values, pa.int32() if arrow.bit_width == 32 else pa.int64()
        ).view(arrow)
    if types.is_dictionary(arrow):
        return pa.DictionaryArray.from_arrays(
            range(len(values)), pa.array(values, arrow.value_type)
        )
    return pa.array(values, arrow)


def meant(found: pa.Array) -> list[Any]:
    """Return what values mean, whatever their type: nanoseconds, numbers, text."""
    arrow = found.type
    if types.is_list(arrow) or types.is_large_list(arrow):
        return [None if one is None else meant(one.values) for one in found]
    if types.is_dictionary(arrow):
        return meant(found.dictionary_decode())
    if types.is_temporal(arrow):
        per_day = {"date32[day]": DAY * 10**9, "date64[ms]": 10**6}
        scale = per_day.get(str(arrow)) or 10**9 // PER_SECOND[arrow.unit]
        return [
            n * scale
            for n in found.view(
                pa.int32() if arrow.bit_width == 32 else pa.int64()
            ).to_pylist()
        ]
    return (
        list(map(repr, map(float, found.to_pylist())))
        if types.is_floating(arrow)
        else found.to_pylist()
    )


def cast(before: pa.DataType, after: Any) -> rt.Alteration:
    return rt.Alteration("c", data_type=after, before=before)


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.long)])
def test_a_cast_that_is_neither_refused_nor_lossy_changes_no_value(tmp_path, step):
    lance = pytest.importorskip("lance")
    values, wrong, kept = edges(), [], 0
    for i, (before, its) in enumerate(values.items()):
        for n, value in enumerate(its):
            stored = pa.table({"c": array(before, [value])})
            lance.write_dataset(stored, str(tmp_path / f"{i}-{n}"))
            for after in [arrow for arrow in values if arrow != before][
                (i + n) % step :: step
            ]:
                if cast(before, after).refused or cast(before, after).loss:
                    continue
                table = lance.dataset(str(tmp_path / f"{i}-{n}"), version=1)
                table.restore()
                try:
                    table.alter_columns({"path": "c", "data_type": after})
                except OSError:  # the engine refuses what does not fit
                    continue
                found = table.to_table().column("c").combine_chunks()
                kept += 1
                if meant(found) != meant(stored.column("c").combine_chunks()):
                    wrong.append((str(before), str(after), value, str(found)))
    assert wrong == []
    assert kept > 700 / step


LOSSY = [
    (
        pa.float64(),
        pa.float32(),
        "double to float keeps 7 digits, and makes the largest numbers infinite",
    ),
    (
        pa.timestamp("us"),
        pa.timestamp("ms"),
        "microseconds would be cut to milliseconds, towards 1970",
    ),
    (pa.time64("ns"), pa.time32("s"), "nanoseconds would be cut to seconds"),
    (
        pa.duration("us"),
        pa.duration("s"),
        "microseconds would be cut to seconds, towards 0",
    ),
    (
        pa.decimal128(10, 2),
        pa.decimal128(10, 1),
        "2 decimal places would be rounded to 1",
    ),
    (pa.timestamp("us"), pa.date32(), "the time of day would be lost"),
    (pa.timestamp("us"), pa.time64("us"), "the day would be lost"),
    (
        pa.timestamp("us"),
        pa.timestamp("us", "Europe/Berlin"),
        "clock times would be taken for those of Europe/Berlin",
    ),
    (
        pa.timestamp("us", "Europe/Berlin"),
        pa.timestamp("us"),
        "clock times in Europe/Berlin would become UTC's",
    ),
    (
        pa.date32(),
        pa.timestamp("s", "Europe/Berlin"),
        "midnight would become another time in Europe/Berlin",
    ),
    (pa.date64(), pa.date32(), "dates in far years would wrap"),
]


@pytest.mark.parametrize(("before", "after", "words"), LOSSY)
@pytest.mark.parametrize(
    "inside", [lambda t: t, pa.list_, lambda t: pa.large_list(pa.list_(t))]
)
def test_what_a_cast_would_lose_is_said(before, after, words, inside):
    change = cast(inside(before), inside(after))
    assert words in change.loss
    assert change.refused is None


@pytest.mark.parametrize("inside", [lambda t: t, pa.list_])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (pa.date32(), pa.timestamp("ns")),
        (pa.date64(), pa.timestamp("us", "UTC")),
        (pa.timestamp("s"), pa.date64()),
    ],
)
def test_what_the_engine_does_wrong_without_a_word_is_refused(before, after, inside):
    assert cast(inside(before), inside(after)).refused
