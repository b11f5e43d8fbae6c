"""Columns of every type that can be compared, and conditions drawn on them."""

from __future__ import annotations

import datetime as dt
import functools
import operator
import struct
from decimal import Decimal

import polars as pl
import pyarrow as pa

UTC = dt.UTC
EPOCH = dt.datetime(1970, 1, 1)
NAN_BELOW = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0000))[0]
NAN = float("nan")
INF = float("inf")
STEPS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}
TEXT = ["", "a", "A", "it's", "ä", "z`?", "\U0001f600", "\uffff", "a ", 'q"']
BYTES = [b"", b"\0", b"a", b"a\0", b"'\xff", b"\xff"]


def whole(bits, *, signed):
    lowest = -(2 ** (bits - 1)) if signed else 0
    highest = lowest + 2**bits - 1
    values = [lowest, lowest + 1, 0, 1, 2, 3, highest - 1, highest]
    kind = f"{'Int' if signed else 'UInt'}{bits}"
    return pa.type_for_alias(kind.lower()), values, getattr(pl, kind)


def moments(unit, zone):
    second = 10**9 // STEPS[unit]
    first = -62_135_510_400 * second
    last = 253_402_210_799 * second
    if unit == "ns":
        first = -(2**63) + 10**14
        last = 2**63 - 10**14
    values = [first, -1, 0, 1, 1_700_000_000 * second, last]
    kind = pl.Datetime("ms" if unit == "s" else unit, zone)
    scale = 1000 if unit == "s" else 1
    return pa.timestamp(unit, zone), values, kind, scale


def counted(arrow, values, dtype, scale=1):
    """Numbers that are stored as they are, and the literals of dtype."""
    storage = pa.int32() if arrow.bit_width == 32 else pa.int64()
    column = pa.array([*values, None], storage).cast(arrow)
    literals = [pl.Series([value * scale]).cast(dtype) for value in values]
    return column, [pl.select(one).to_series() for one in literals]


def plain(arrow, values, dtype=None):
    column = pa.array([*values, None], arrow)
    return column, [pl.Series([value], dtype=dtype) for value in values]


FLOATS = [-INF, -1.5, -0.0, 0.0, 0.5, 1.5, INF, NAN, NAN_BELOW]
F16 = [-65504.0, 65504.0, 2.0**-24]
F32 = [3.4028234663852886e38, 2.0**-149, 0.10000000149011612]
F64 = [1.7976931348623157e308, 5e-324, 0.1, 2.0**53]
KINDS = {
    "bool": plain(pa.bool_(), [True, False]),
    "float32": plain(pa.float32(), [*FLOATS, *F32], pl.Float32),
    "float64": plain(pa.float64(), [*FLOATS, *F64], pl.Float64),
    "decimal": plain(
        pa.decimal128(38, 5),
        [Decimal(0), Decimal("-1.5"), Decimal("9" * 33)],
        pl.Decimal(38, 5),
    ),
    "small decimal": plain(
        pa.decimal128(4, 4), [Decimal("0.9999"), Decimal("-0.1")], pl.Decimal(4, 4)
    ),
    "text": plain(pa.string(), TEXT),
    "large text": plain(pa.large_string(), TEXT),
    "category": plain(pa.dictionary(pa.int32(), pa.string()), TEXT),
    "binary": plain(pa.binary(), BYTES),
    "large binary": plain(pa.large_binary(), BYTES),
    "fixed binary": plain(pa.binary(3), [b"abc", b"\0\0\0", b"\xff'`"]),
    "UUID": plain(pa.uuid(), [b"\0" * 16, b"a" * 16, b"\xff" * 16]),
    "date32": counted(pa.date32(), [-719162, -1, 0, 1, 2932896], pl.Date),
}
for bits in (8, 16, 32, 64):
    KINDS[f"int{bits}"] = plain(*whole(bits, signed=True))
    KINDS[f"uint{bits}"] = plain(*whole(bits, signed=False))
for unit, step in STEPS.items():
    time = pa.type_for_alias(f"time{32 if step >= 10**6 else 64}[{unit}]")
    span = pl.Duration("ms" if unit == "s" else unit)
    scale = 1000 if unit == "s" else 1
    of_day = [0, 1, 86_400 * 10**9 // step - 1]
    spans = [-(10**12), -1, 0, 1, 10**12]
    KINDS[f"time {unit}"] = counted(time, of_day, pl.Time, step)
    KINDS[f"duration {unit}"] = counted(pa.duration(unit), spans, span, scale)
    for zone in (None, "UTC", "America/New_York"):
        KINDS[f"moment {unit} {zone}"] = counted(*moments(unit, zone))
# since Polars 2
if hasattr(pl, "Float16"):
    KINDS["float16"] = plain(pa.float16(), [*FLOATS, *F16], pl.Float16)
TABLE_ROWS = 60


def draw_table(r, names):
    """Draw columns of these types, with nulls, and a number for each row."""
    columns = {"id": pa.array(range(TABLE_ROWS))}
    for name in names:
        values, _ = KINDS[name]
        places = [r.randrange(len(values)) for _ in range(TABLE_ROWS)]
        columns[name] = values.take(pa.array(places))
    return pa.table(columns)


COMPARISONS = (
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
)


def draw_leaf(r, names):
    name = r.choice(names)
    column = pl.col(name)
    literals = KINDS[name][1]

    def value():
        one = r.choice(literals)
        is_cut = getattr(one.dtype, "time_unit", "") == "ns" or one.dtype == pl.Time
        if is_cut or r.random() < 0.5:
            return pl.lit(one)
        return pl.lit(one[0], dtype=one.dtype)

    kind = r.randrange(10)
    if name == "bool" and kind < 3:
        return column
    if kind < 4:
        compare = r.choice(COMPARISONS[:2] if name == "category" else COMPARISONS)
        found = compare(column, value())
        if r.random() < 0.2:
            found = compare(value(), column)
        return found
    if kind < 7:
        some = r.choices(literals, k=r.randrange(1, 5))
        series = pl.concat(some)
        if r.random() < 0.3:
            series = pl.concat([series, pl.Series([None], dtype=series.dtype)])
        if r.random() < 0.2:
            series = series.clear()
        return column.is_in(series)
    if kind == 7 and name != "category":
        closed = r.choice(["both", "left", "right", "none"])
        return column.is_between(value(), value(), closed)
    return column.is_null() if r.random() < 0.5 else column.is_not_null()


def draw(r, names, depth=0):
    choice = r.random()
    if depth > 4 or choice < 0.35:
        return draw_leaf(r, names)
    if choice < 0.38:
        return pl.lit(r.choice([True, False, None]), dtype=pl.Boolean)
    if choice < 0.55:
        return ~draw(r, names, depth + 1)
    join = r.choice([operator.and_, operator.or_])
    parts = [draw(r, names, depth + 1) for _ in range(r.randrange(2, 4))]
    return functools.reduce(join, parts)
