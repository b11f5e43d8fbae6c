"""Files of tables → frames: Parquet, CSV, NDJSON, and Arrow IPC in both its forms."""

from __future__ import annotations

import functools
import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pandas as pd


def read_pandas(path: Path) -> pd.DataFrame:
    """Read a file as pandas would."""
    return _format_of(path).read_pandas(path)


def read_polars(path: Path) -> pl.DataFrame:
    """Read a file as Polars would."""
    return _scan(path).collect()


def scan_all(paths: Iterable[Path]) -> pl.LazyFrame:
    """Open several files, or those that globs name, as one frame, in the order given; globs in that of their names.

    Raises
    ------
    ValueError
        If a file is missing, cannot be read, or has other columns than the first.
    """
    files = [file for path in paths for file in _expand(path)]
    frames = [_scan(file) for file in files]
    schemas = [frame.collect_schema() for frame in frames]
    for file, schema in zip(files, schemas, strict=True):
        if list(schema) != list(schemas[0]):
            differing = sorted(set(schema) ^ set(schemas[0])) or "their order"
            raise ValueError(f"{file} has other columns than {files[0]}: {differing}; make them alike first")
        for column, dtype in schema.items():
            if dtype != (first := schemas[0][column]):
                raise ValueError(f"{file}: column {column!r} is {dtype}, and {first} in {files[0]}; cast it first")
    return pl.concat(frames) if len(frames) > 1 else frames[0]


def _expand(path: Path) -> Iterator[Path]:
    if path.exists() or not glob.has_magic(str(path)):
        yield path
        return
    found = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207  # Path.glob takes no absolute patterns
    if not found:
        raise ValueError(f"{path}: no file has such a name")
    yield from map(Path, found)


def _scan(path: Path) -> pl.LazyFrame:
    """Open a file, and read no more of it than its schema."""
    try:
        frame = _format_of(path).scan(path)
        frame.collect_schema()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    return frame


def _format_of(path: Path) -> Format:
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name its files, for example '{path}/*.parquet'")
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file")
    found = next((known for known in FORMATS if path.suffix.lower() in known.suffixes), None)
    if found is None:
        *most, last = (f"{known.title} ({', '.join(known.suffixes)})" for known in FORMATS)
        raise ValueError(f"{path}: the name ends in {path.suffix!r}; {', '.join(most)} and {last} can be read")
    return found


class Format(NamedTuple):
    """What the names of its files end in, and how each library opens them."""

    title: str
    suffixes: tuple[str, ...]
    scan: Callable[[Path], pl.LazyFrame]
    read_pandas: Callable[[Path], pd.DataFrame]


def _scan_arrow(path: Path) -> pl.LazyFrame:
    return pl.read_ipc_stream(path).lazy() if _is_stream(path) else pl.scan_ipc(path)


def _read_arrow(path: Path) -> pd.DataFrame:
    open_ipc = pa.ipc.open_stream if _is_stream(path) else pa.ipc.open_file
    with pa.memory_map(str(path)) as file:
        frame: pd.DataFrame = open_ipc(file).read_all().to_pandas()
    return frame


def _is_stream(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(6) != b"ARROW1"


def _pandas() -> Any:
    import pandas as pd  # late: only the demo reads with it, and it takes longer to load than all else here

    return pd


_scan_csv = functools.partial(pl.scan_csv, try_parse_dates=True, infer_schema_length=None)
FORMATS = (
    Format("Parquet", (".parquet", ".pq"), pl.scan_parquet, lambda path: _pandas().read_parquet(path)),
    Format("CSV", (".csv",), _scan_csv, lambda path: _pandas().read_csv(path)),
    Format("NDJSON", (".ndjson", ".jsonl"), pl.scan_ndjson, lambda path: _pandas().read_json(path, lines=True)),
    Format("Arrow IPC", (".arrow", ".feather", ".ipc", ".arrows"), _scan_arrow, _read_arrow),
)
