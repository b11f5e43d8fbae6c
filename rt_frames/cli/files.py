"""Files of tables → frames: Parquet, CSV, NDJSON, and Arrow IPC in both its forms."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pandas as pd
    import polars as pl
    import pyarrow as pa

_BY_SUFFIX = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".arrows": "arrow",
}
FORMATS = "Parquet (.parquet), CSV (.csv), NDJSON (.ndjson, .jsonl) and Arrow IPC (.arrow, .feather, .ipc, .arrows)"


def file_format(path: Path) -> str:
    """Tell a file's format by the end of its name.

    Raises
    ------
    ValueError
        If the file is missing, or its name has no known end.
    """
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name its files, for example '{path}/*.parquet'")
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file")
    found = _BY_SUFFIX.get(path.suffix.lower())
    if found is None:
        raise ValueError(f"{path}: the name ends in {path.suffix!r}; {FORMATS} can be read")
    return found


def _is_stream(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(6) != b"ARROW1"


def _read_stream(path: Path) -> pa.Table:
    import pyarrow as pa

    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_stream(file).read_all()


def read_pandas(path: Path) -> pd.DataFrame:
    """Read a file as pandas would."""
    import pandas as pd

    kind = file_format(path)
    if kind == "arrow" and _is_stream(path):
        table: pd.DataFrame = _read_stream(path).to_pandas()
        return table
    if kind == "ndjson":
        return pd.read_json(path, lines=True)
    read: dict[str, Callable[[Path], pd.DataFrame]]
    read = {"parquet": pd.read_parquet, "csv": pd.read_csv, "arrow": pd.read_feather}
    return read[kind](path)


def read_polars(path: Path) -> pl.DataFrame:
    """Read a file as Polars would."""
    return scan_polars(path).collect()


def scan_polars(path: Path) -> pl.LazyFrame:
    """Open a file without reading it."""
    import polars as pl

    kind = file_format(path)
    if kind == "csv":
        return pl.scan_csv(path, try_parse_dates=True, infer_schema_length=None)
    if kind == "arrow" and _is_stream(path):
        return pl.read_ipc_stream(path).lazy()
    scan: dict[str, Callable[[Path], pl.LazyFrame]]
    scan = {"parquet": pl.scan_parquet, "ndjson": pl.scan_ndjson, "arrow": pl.scan_ipc}
    return scan[kind](path)


def scan_all(paths: Iterable[Path]) -> pl.LazyFrame:
    """Open several files, or those that globs name, as one frame, in the order given; globs in that of their names.

    Raises
    ------
    ValueError
        If a file is missing, cannot be read, or has other columns than the first.
    """
    import polars as pl

    files = [file for path in paths for file in _expanded(path)]
    frames = [scan_polars(file) for file in files]
    if len(frames) > 1:
        _check_alike(files, [frame.collect_schema() for frame in frames])
    return pl.concat(frames) if len(frames) > 1 else frames[0]


def _expanded(path: Path) -> Iterator[Path]:
    if path.exists() or not glob.has_magic(str(path)):
        yield path
        return
    found = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207  # Path.glob takes no absolute patterns
    if not found:
        raise ValueError(f"{path}: no file has such a name")
    yield from map(Path, found)


def _check_alike(files: list[Path], schemas: list[pl.Schema]) -> None:
    first = schemas[0]
    for file, schema in zip(files, schemas, strict=True):
        if list(schema) != list(first):
            differing = sorted(set(schema) ^ set(first)) or "their order"
            raise ValueError(f"{file} has other columns than {files[0]}: {differing}; make them alike first")
        for column, dtype in schema.items():
            if dtype != first[column]:
                raise ValueError(
                    f"{file}: column {column!r} is {dtype}, and {first[column]} in {files[0]}; cast it first"
                )
