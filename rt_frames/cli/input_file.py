"""Input files, the options for reading them, and checks that all formats share."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from rt_frames._names import clean_names
from rt_frames._text import list_names, make_printable, one_line

PACKED = {".gz": "gzip", ".zst": "zstd", ".lz4": "lz4"}
ENCODING_ADVICE = "pass --encoding, such as cp1252 or utf-16"


class FileOptions(NamedTuple):
    """Options for reading files. None means that the name or content decides.

    Parameters
    ----------
    format : str, optional
        One of the values of `SUFFIXES`.
    separator, decimal, date_format, nulls, header
        For CSV: the separator of cells, the decimal point, the format of dates, cells
        that mean null, and whether the first line holds the column names.
    encoding : str, optional
        For CSV and JSON.
    dtypes : dict of str to pyarrow.DataType
        Types of columns by their names in the file, instead of inferred types.
    rename, clean_names
        How column names in the table follow from those in the file.
    table : pyarrow.Schema, optional
        The columns of the table that rows are added to. Text is cast to their types.
    """

    format: str | None = None
    separator: str | None = None
    decimal: str = "."
    date_format: str | None = None
    encoding: str | None = None
    nulls: tuple[str, ...] = ()
    header: bool = True
    dtypes: Mapping[str, pa.DataType] = {}
    rename: Mapping[str, str] = {}
    clean_names: bool = False
    table: pa.Schema | None = None

    def names_in_table(self, names: list[str]) -> list[str]:
        """Return the table's names for a file's columns."""
        renamed = [self.rename.get(name, name) for name in names]
        if self.clean_names:
            return clean_names(renamed)
        return renamed

    def table_types(self) -> dict[str, pa.DataType]:
        """Return the types of ``table`` by column name. Empty without a table."""
        return {field.name: field.type for field in self.table or ()}


class InputFile(NamedTuple):
    """A file: the path that errors name, and a path that can be read repeatedly."""

    path: Path
    readable: Path

    def __str__(self) -> str:
        return make_printable(str(self.path))


# the schema of all files, and a function that yields the batches of a file
Opened = tuple[pa.Schema, Callable[[InputFile], Iterable[pa.RecordBatch]]]


@contextlib.contextmanager
def errors_named_after(file: InputFile) -> Iterator[None]:
    """Turn a library's errors into a ValueError with the file's name."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise unreadable(file, error) from error


def unreadable(file: InputFile, error: Exception) -> ValueError:
    """Return a ValueError with the file's name and an error's first line."""
    reason = str(error).partition("\n")[0]
    return ValueError(f"{file} cannot be read: {one_line(reason, 300)}")


def suffix_of(path: Path) -> str:
    """Return the last suffix that is not a compression's, such as ``.csv``."""
    for suffix in reversed(path.suffixes):
        if suffix.lower() not in PACKED:
            return suffix.lower()
    return ""


def check_column_names(
    file: InputFile, names: list[str], first: InputFile, expected: list[str]
) -> None:
    """Raise ValueError if a file's columns cannot be matched by name."""
    added = set(names) - set(expected)
    missing = set(expected) - set(names)
    is_unique = len(set(names)) == len(names) == len(expected)
    if names == expected or (is_unique and not added and not missing):
        return
    differences = []
    if added:
        differences.append(f"extra: {list_names(sorted(added))}")
    if missing:
        differences.append(f"missing: {list_names(sorted(missing))}")
    difference = "; ".join(differences) or "repeated names in another order"
    raise ValueError(
        f"{file} has other columns than {first} ({difference}); give all files the same "
        "columns"
    )


def in_order(rows: Any, names: list[str]) -> Any:
    """Return a batch or table with its columns in the order of ``names``."""
    if rows.schema.names == names:
        return rows
    return rows.select(names)
