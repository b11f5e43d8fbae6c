"""Draw Polars frames: every dtype at every depth, in several chunks, sliced, filtered and gathered."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import polars as pl

from tests.longer.attack.polars_cells import FLOATS

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

TEXTS = ["", "a", "b", "Ä", "日本語", "👍🏽", "nul\0nul", "longer than twelve bytes", "x" * 60]
WORDS = ["low", "middle", "high", "", "a word of more than twelve bytes"]
ZONES = [None, "UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu"]
INTEGERS = [pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64]


def leaf_type(r: random.Random) -> pl.DataType:
    """Draw a dtype without children."""
    kinds: list[Callable[[], Any]] = [
        r.choice(INTEGERS),
        r.choice(list(FLOATS)),
        r.choice([pl.String, pl.Binary, pl.Boolean, pl.Date, pl.Time]),
        lambda: pl.Datetime(r.choice(["ms", "us", "ns"]), r.choice(ZONES)),
        lambda: pl.Duration(r.choice(["ms", "us", "ns"])),
        lambda: pl.Decimal(*r.choice([(38, 0), (10, 2), (38, 38), (5, 5)])),
        pl.Categorical,
        lambda: pl.Categorical(pl.Categories(r.choice(["one", "two"]))),
        lambda: pl.Enum(WORDS[: r.randrange(1, len(WORDS))]),
    ]
    return r.choice(kinds)()


def random_type(r: random.Random, depth: int) -> pl.DataType:
    """Draw a dtype, of at most so many levels."""
    if r.random() < 0.02:
        return r.choice([pl.Int128, pl.UInt128, pl.Null, pl.Object])()
    if depth == 0 or r.random() < 0.25:
        return leaf_type(r)
    inner = random_type(r, depth - 1)
    if isinstance(inner, pl.Object):
        return inner
    if r.random() < 0.04:
        return pl.Extension("test.tagged", inner, "tag")
    if r.random() < 0.08:
        return pl.Map(r.choice([pl.String(), pl.Int32(), pl.Date()]), inner)
    kind = r.randrange(4)
    if kind == 0:
        return pl.List(inner)
    if kind == 1:
        return pl.Array(inner, r.choice([0, 1, 2, 2, 3, 3]))
    second = random_type(r, depth - 1)
    fields = {"a": inner} if kind == 2 or isinstance(second, pl.Object) else {"a": inner, "b": second}
    return pl.Struct(fields)


def series_of(r: random.Random, dtype: pl.DataType, rows: int) -> pl.Series:
    """Fill a series of a dtype."""
    nulls = r.choice([0, 0, 0.2, 0.6])
    valid = [r.random() >= nulls for _ in range(rows)]
    if isinstance(dtype, pl.List | pl.Array):
        return _lists(r, dtype, valid)
    if isinstance(dtype, pl.Struct):
        return _structs(r, dtype, valid)
    if isinstance(dtype, pl.Map):
        return _maps(r, dtype, valid)
    if isinstance(dtype, pl.BaseExtension):
        return series_of(r, dtype.ext_storage(), rows).ext.to(dtype)
    if isinstance(dtype, pl.Object):
        return pl.Series([object() if ok else None for ok in valid], dtype=pl.Object)
    if isinstance(dtype, pl.Null):
        return pl.Series([None] * rows, dtype=pl.Null)
    return _leaves(r, dtype, valid)


def _lists(r: random.Random, dtype: pl.List | pl.Array, valid: list[bool]) -> pl.Series:
    """Cut one series into lists, through Polars' own grouping, so that nothing passes Python objects."""
    fixed = isinstance(dtype, pl.Array)
    sizes = [dtype.size if fixed else r.randrange(4) for _ in valid]
    items = series_of(r, dtype.inner, sum(sizes))
    groups = [i for i, size in enumerate(sizes) for _ in range(size)]
    grouped = pl.DataFrame({"row": pl.Series(groups, dtype=pl.Int64), "item": items}).group_by("row").agg("item")
    rows = pl.DataFrame({"row": pl.Series(range(len(valid)), dtype=pl.Int64), "ok": pl.Series(valid, dtype=pl.Boolean)})
    joined = rows.join(grouped, on="row", how="left", maintain_order="left")
    empty = pl.Series([[]], dtype=pl.List(dtype.inner))
    lists = joined.select(pl.when("ok").then(pl.col("item").fill_null(pl.lit(empty).first()))).to_series()
    return lists.list.to_array(dtype.size) if fixed else lists


def _maps(r: random.Random, dtype: pl.Map, valid: list[bool]) -> pl.Series:
    """Make lists of entries first; a map without a key in an entry is none."""
    entry = pl.Struct({"key": dtype.key, "value": dtype.value})
    lists = _lists(r, pl.List(entry), valid)
    whole = pl.element().is_not_null() & pl.element().struct.field("key").is_not_null()
    return lists.to_frame("m").select(pl.col("m").list.eval(pl.element().filter(whole))).to_series().cast(dtype)


def _structs(r: random.Random, dtype: pl.Struct, valid: list[bool]) -> pl.Series:
    children = {field.name: series_of(r, field.dtype, len(valid)) for field in dtype.fields}
    whole = pl.DataFrame(children).with_columns(ok=pl.Series(valid, dtype=pl.Boolean))
    return whole.select(pl.when("ok").then(pl.struct(*children))).to_series()


def _leaves(r: random.Random, dtype: pl.DataType, valid: list[bool]) -> pl.Series:
    draw, through = _draw_of(r, dtype)
    drawn = [draw() if ok else None for ok in valid]
    return pl.Series(drawn, dtype=through).cast(dtype)


def _draw_of(r: random.Random, dtype: pl.DataType) -> tuple[Callable[[], Any], pl.DataType]:
    """Draw values, and tell the dtype that takes them from Python."""
    if dtype.is_integer():
        bits = 128 if dtype in (pl.Int128, pl.UInt128) else int(str(dtype).lstrip("UInt"))
        low, high = (0, 2**bits - 1) if dtype.is_unsigned_integer() else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        return lambda: r.choice([low, high, r.randrange(100)]), dtype
    if dtype.is_float():
        return lambda: r.choice([0.5, -0.0, float("nan"), float("inf"), r.random()]), pl.Float64()
    if isinstance(dtype, pl.Boolean):
        return lambda: r.random() < 0.5, dtype
    if isinstance(dtype, pl.Binary):
        return lambda: r.choice([b"", b"\xff", r.randbytes(20)]), dtype
    if isinstance(dtype, pl.Decimal):
        top = 10**dtype.precision - 1
        return lambda: Decimal(
            (r.randrange(2), tuple(map(int, str(r.choice([top, r.randrange(top)])))), -dtype.scale)
        ), dtype
    if isinstance(dtype, pl.Enum):
        return lambda: r.choice(dtype.categories.to_list()), pl.String()
    if isinstance(dtype, pl.Date):
        return lambda: dt.date(1, 1, 1) + dt.timedelta(days=r.randrange(3_652_000)), dtype
    if isinstance(dtype, pl.Time):
        return lambda: r.choice([0, 86_400 * 10**9 - 1, r.randrange(86_400 * 10**9)]), pl.Int64()
    if dtype.is_temporal():
        return lambda: r.choice([0, -1, 86_400_000_000, r.randrange(-(2**50), 2**50)]), pl.Int64()
    return lambda: r.choice(WORDS if isinstance(dtype, pl.Categorical) else TEXTS), pl.String()


def column(r: random.Random, dtype: pl.DataType, rows: int) -> pl.Series:
    """Make a series of several chunks, each drawn for itself."""
    parts = sorted(r.randrange(rows + 1) for _ in range(r.choice([0, 0, 1, 2])))
    sizes = [b - a for a, b in zip([0, *parts], [*parts, rows], strict=True)]
    chunks = [series_of(r, dtype, size + 2).slice(r.randrange(3), size) for size in sizes]
    if isinstance(dtype, pl.Object):
        return series_of(r, dtype, rows)
    return pl.concat(chunks, rechunk=False)


def rearranged(r: random.Random, frame: pl.DataFrame) -> pl.DataFrame:
    """Take a part or another order of a frame."""
    if any(isinstance(dtype, pl.Object) for dtype in frame.dtypes):
        return frame
    keep = pl.Series([r.random() < 0.7 for _ in range(frame.height)], dtype=pl.Boolean)
    steps: list[Callable[[], pl.DataFrame]] = [
        lambda: frame.slice(1, frame.height),
        lambda: frame.filter(keep),
        lambda: frame[[r.randrange(frame.height) for _ in range(frame.height)]] if frame.height else frame,
        lambda: frame.gather_every(2),
        lambda: pl.concat([frame, frame.head(2)], rechunk=False),
        frame.rechunk,
    ]
    return r.choice(steps)() if r.random() < 0.5 else frame


def frames(r: random.Random, rows: int, depth: int, pieces: int) -> list[pl.DataFrame]:
    """Make frames of one schema, of one to three drawn columns."""
    dtypes = [random_type(r, depth) for _ in range(r.choice([1, 1, 1, 2, 3]))]
    return [
        rearranged(r, pl.DataFrame([column(r, dtype, rows).alias(f"col_{i}") for i, dtype in enumerate(dtypes)]))
        for _ in range(pieces)
    ]
