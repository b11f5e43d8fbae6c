"""Draw pandas frames: every dtype, layout of memory, kind of index and of category."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tests.longer.attack import make_arrow, make_objects

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

DTYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "?"]
DTYPES += [">i2", ">i8", ">u4", ">f4", ">f8", ">f2"]
UNITS = ["s", "ms", "us", "ns"]
TEXTS = make_objects.TEXTS
NULLABLE = ["Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Float32", "Float64", "boolean"]


def _numbers(r: random.Random, rows: int) -> np.ndarray:
    dtype = np.dtype(r.choice(DTYPES))
    if dtype.kind == "f":
        drawn: list[Any] = [r.choice([0.1, -0.0, float("nan"), float("inf"), 6e-8, r.random()]) for _ in range(rows)]
    elif dtype.kind == "b":
        drawn = [r.random() < 0.5 for _ in range(rows)]
    else:
        info = np.iinfo(dtype)
        drawn = [r.choice([int(info.min), int(info.max), 0, 1, r.randrange(100)]) for _ in range(rows)]
    return np.array(drawn, dtype)


def _laid_out(r: random.Random, array: np.ndarray) -> np.ndarray:
    """Give the same values another place in memory."""
    layout = r.randrange(5)
    if layout == 0:
        return np.repeat(array, 2)[::2]
    if layout == 1:
        return array[::-1].copy()[::-1]
    if layout == 2:
        array = array.copy()
        array.flags.writeable = False
    if layout == 3 and len(array):
        return np.stack([array, array], axis=1)[:, 0]
    return array


def numpy_column(r: random.Random, rows: int) -> pd.Series:
    return pd.Series(_laid_out(r, _numbers(r, rows)), copy=False)


def _counts(r: random.Random, rows: int) -> np.ndarray:
    nat = np.iinfo("i8").min
    edges = [0, -1, 1, nat, 2**62, -(2**62), 2**63 - 1, r.randrange(2**40), r.randrange(-(2**40), 0)]
    return np.array([r.choice(edges) for _ in range(rows)], "i8")


def moments(r: random.Random, rows: int) -> pd.Series:
    """Draw datetimes or timedeltas of any unit, whole days among them."""
    counts = _counts(r, rows) if r.random() < 0.7 else np.array([86_400 * 10**9 * i for i in range(rows)], "i8")
    kind = r.choice(["M8", "m8"])
    return pd.Series(_laid_out(r, counts.view(f"{kind}[{r.choice(UNITS)}]")), copy=False)


def zoned(r: random.Random, rows: int) -> pd.Series:
    zones = [
        *make_objects.ZONES,
        dt.UTC,
        dt.timezone(dt.timedelta(hours=5, minutes=30)),
        zoneinfo.ZoneInfo("Asia/Tokyo"),
    ]
    zones += [dt.timezone(dt.timedelta(seconds=19_800 + r.randrange(0, 90, 30)))]
    unit = r.choice(UNITS)
    many = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    counts = np.array([r.randrange(-(10**9), 2 * 10**9) * many + r.randrange(many) for _ in range(rows)], "i8")
    column = pd.Series(counts.view(f"M8[{unit}]")).dt.tz_localize("UTC").dt.tz_convert(r.choice(zones))
    return column.where([r.random() < 0.8 for _ in range(rows)]) if rows else column


def nullable(r: random.Random, rows: int) -> pd.Series:
    dtype = r.choice(NULLABLE)
    kind = pd.array([], dtype=dtype).dtype.numpy_dtype
    if kind.kind in "iu":
        info = np.iinfo(kind)
        edges: list[Any] = [int(info.min), int(info.max), 0, r.randrange(100)]
    else:
        edges = [True, False] if kind.kind == "b" else [0.5, -0.0, 1e30, float("inf")]
    column = pd.Series([r.choice([*edges, pd.NA]) for _ in range(rows)], dtype=dtype)
    if kind.kind == "f" and r.random() < 0.3:
        return column / pd.Series([r.choice([0, 1]) for _ in range(rows)], dtype=dtype)
    return column


def text(r: random.Random, rows: int) -> pd.Series:
    texts = [*TEXTS, r.choice(TEXTS)] + (make_objects.SURROGATES if r.random() < 0.05 else [])
    drawn = [r.choice([*texts, None]) for _ in range(rows)]
    dtypes = ["str", "string", "string[python]", "string[pyarrow]", pd.StringDtype("python", na_value=np.nan)]
    try:
        return pd.Series(drawn, dtype=r.choice(dtypes))
    except UnicodeEncodeError:
        return pd.Series(drawn, dtype="string[python]")


def arrow(r: random.Random, rows: int) -> pd.Series:
    drawn = make_arrow.column(r, make_arrow.random_type(r, r.choice([0, 0, 1, 2])), rows)
    return pd.Series(pd.arrays.ArrowExtensionArray(drawn), copy=False)


def _words(r: random.Random) -> list[Any] | pd.Index:
    """Draw categories of anything that can be told apart."""
    many = r.choice([1, 2, 5, 200])
    kinds: list[Callable[[], Any]] = [
        lambda: [f"word {i}" for i in range(many)],
        lambda: pd.Index(np.arange(many).astype(r.choice(["i1", "i4", "i8", "u1", "u8", "f4", "f8"]))),
        lambda: pd.Index(pd.array(range(min(many, 100)), dtype=r.choice(["Int8", "UInt64", "Float64"]))),
        lambda: pd.date_range(
            "1999-12-31", periods=many, freq="h", unit=r.choice(UNITS), tz=r.choice([None, "Asia/Tokyo"])
        ),
        lambda: pd.timedelta_range("1ns", periods=many, freq="7ns"),
        lambda: pd.interval_range(0, many),
        lambda: pd.period_range("2020", periods=many, freq="M"),
        lambda: pd.Index([True, False][: min(many, 2)]),
        lambda: pd.Index([f"w{i}" for i in range(many)], dtype=r.choice(["string", "string[pyarrow]", "str"])),
        lambda: _unique(make_objects.column(r, 6)),
        lambda: _unique([make_objects.draw_kind(r, [r.choice(make_objects.COMMON)])(r) for _ in range(5)]),
        lambda: _unique([r.choice([make_objects.stamp, make_objects.day, make_objects.aware])(r) for _ in range(3)]),
        lambda: _unique([b"a", b"\xff"]),
        lambda: _unique([Decimal("1.10"), Decimal(2)]),
        lambda: _unique([(1, 2), (3, 4)]),
        lambda: pd.Index(pd.arrays.ArrowExtensionArray(make_arrow.array_of(r, make_arrow.leaf_type(r), 9, 0))).unique(),
    ]
    return r.choice(kinds)()


def _unique(cells: list[Any]) -> pd.Index:
    """Keep what may be a category: what can be hashed, is not missing and is there once."""
    kept: dict[Any, Any] = {}
    for cell in cells:
        try:
            if not pd.isna(cell) and not isinstance(cell, tuple):
                kept.setdefault(cell, cell)
        except (TypeError, ValueError):
            continue
    array = np.empty(len(kept), object)
    array[:] = list(kept)
    return pd.Index(array, dtype=object)


def category(r: random.Random, rows: int) -> pd.Series:
    words = pd.Index(_words(r))
    words = words[words.notna()]
    codes = [
        r.choice([-1, r.randrange(len(words)), r.randrange(len(words))]) if len(words) else -1 for _ in range(rows)
    ]
    drawn = pd.Categorical.from_codes(codes, dtype=pd.CategoricalDtype(words, ordered=r.random() < 0.2))
    return pd.Series(drawn)


def refused(r: random.Random, rows: int) -> pd.Series:
    """Draw what no column of the service can hold."""
    return r.choice(
        [
            lambda: pd.Series(pd.period_range("2020", periods=rows, freq="D")),
            lambda: pd.Series(pd.interval_range(0, rows) if rows else pd.IntervalIndex([])),
            lambda: pd.Series(pd.arrays.SparseArray([0, 1] * rows, fill_value=0))[:rows],
            lambda: pd.Series(np.ones(rows, "c16")),
            lambda: pd.Series(np.ones(rows, np.longdouble)),
        ]
    )()


MAKERS: dict[str, Callable[[random.Random, int], pd.Series]] = {
    "numpy": numpy_column, "moments": moments, "zoned": zoned, "nullable": nullable, "text": text,
    "arrow": arrow, "category": category, "refused": refused, "object": make_objects.series,
}  # fmt: skip


def index(r: random.Random, rows: int) -> pd.Index:
    """Draw an index of any kind, with and without names."""
    kinds: list[Callable[[], pd.Index]] = [
        lambda: pd.RangeIndex(3, 3 + rows),
        lambda: pd.Index(np.arange(rows) * 5, name=r.choice([None, "key"])),
        lambda: pd.date_range("2020-01-01", periods=rows, unit=r.choice(UNITS), tz=r.choice([None, "UTC"])),
        lambda: pd.Index([f"row {i}" for i in range(rows)], name=r.choice([None, "key", "index"])),
        lambda: pd.Index(np.arange(rows) / 2, name=r.choice([None, "key"])),
        lambda: pd.Index(pd.Categorical(["x", "y"] * rows)[:rows], name=r.choice([None, "key"])),
        lambda: pd.Index(pd.array(range(rows), dtype="Int64")),
        lambda: pd.timedelta_range("1s", periods=rows, name="key"),
        lambda: pd.MultiIndex.from_arrays(
            [range(rows), ["a"] * rows], names=r.choice([["k", "l"], [None, None], ["k", None]])
        ),
        lambda: pd.Index([True, False] * rows)[:rows],
        lambda: pd.period_range("2020", periods=rows, freq="D", name="key"),
        lambda: pd.Index(pd.Series(make_objects.column(r, rows), dtype=object), name="key", dtype=object),
        lambda: pd.interval_range(0, rows) if rows else pd.RangeIndex(0),
    ]
    return r.choice(kinds)()


def rearranged(r: random.Random, frame: pd.DataFrame) -> pd.DataFrame:
    """Take a part or another order of a frame, as people do before they store it."""
    step = r.randrange(8)
    if step == 0:
        return frame.iloc[::2]
    if step == 1:
        return frame.iloc[::-1]
    if step == 2:
        return frame.iloc[1:]
    if step == 3:
        return frame[np.array([r.random() < 0.6 for _ in range(len(frame))], bool)]
    if step == 4:
        return pd.concat([frame, frame.iloc[:2]])
    return frame


def frame(r: random.Random, rows: int, kind: str | None = None) -> pd.DataFrame:
    """Make a frame of one to three drawn columns."""
    many = r.choice([1, 1, 1, 1, 1, 1, 2]) if kind == "object" else r.choice([1, 1, 1, 2, 3])
    kinds = [kind or r.choice(list(MAKERS)) for _ in range(many)]
    columns = {f"col_{i}": MAKERS[name](r, rows).reset_index(drop=True) for i, name in enumerate(kinds)}
    made = pd.DataFrame(columns, copy=False)
    if rows and r.random() < 0.2 and all(isinstance(dtype, np.dtype) and dtype.kind != "O" for dtype in made.dtypes):
        made = made.T.T  # in one block, by rows
    if r.random() < 0.2:
        made.index = index(r, len(made))
    return rearranged(r, made)
