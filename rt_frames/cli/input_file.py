"""What all readers of files need: a file, how it is read, and the names of its columns."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from rt_frames._names import clean_names
from rt_frames._text import list_names, make_printable, one_line

PACKED = {".gz": "gzip", ".zst": "zstd", ".lz4": "lz4"}
ENCODING_ADVICE = "give --encoding, such as cp1252 or utf-16"


class FileOptions(NamedTuple):
    """How files are read; what is None follows from their names, or from what they hold.

    Parameters
    ----------
    format : str, optional
        One of the values of `SUFFIXES`.
    separator, decimal, date_format, nulls, header
        Of CSV: what separates cells, the decimal point, how dates are written, cells that mean null, and whether the
        first row names the columns.
    encoding : str, optional
        Of CSV and JSON.
    dtypes : dict of str to pyarrow.DataType
        Types of columns, in place of the inferred ones.
    rename, clean_names
        What columns are called in the table.
    table : pyarrow.Schema, optional
        Of the table that the rows are added to, whose types those of text are.
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
        """Return what a file's columns are called in the table."""
        renamed = [self.rename.get(name, name) for name in names]
        return clean_names(renamed) if self.clean_names else renamed

    def table_types(self) -> dict[str, pa.DataType]:
        """Return the types of the table's columns, if rows are added to one."""
        return {field.name: field.type for field in self.table or ()}


class InputFile(NamedTuple):
    """A file by its name, and where it can be read again and again: a temporary copy of a pipe."""

    path: Path
    readable: Path

    def __str__(self) -> str:
        return make_printable(str(self.path))


# of all files, and what reads one
Opened = tuple[pa.Schema, Callable[[InputFile], Iterable[pa.RecordBatch]]]


@contextlib.contextmanager
def errors_named_after(file: InputFile) -> Iterator[None]:
    """Name the file in what its library raises, in few words."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise unreadable(file, error) from error


def unreadable(file: InputFile, error: Exception) -> ValueError:
    """Make an error of what a library raises about a file: its first line."""
    reason = str(error).partition("\n")[0]
    return ValueError(f"{file} cannot be read: {one_line(reason, 300)}")


def suffix_of(path: Path) -> str:
    """Return the end of a name that says what a file holds, which may be compressed."""
    for suffix in reversed(path.suffixes):
        if suffix.lower() not in PACKED:
            return suffix.lower()
    return ""


def check_column_names(
    file: InputFile, names: list[str], first: InputFile, expected: list[str]
) -> None:
    """Refuse columns of other names; if names occur twice, also those in another order."""
    added = set(names) - set(expected)
    missing = set(expected) - set(names)
    is_unique = len(set(names)) == len(names) == len(expected)
    if names == expected or (is_unique and not added and not missing):
        return
    differences = []
    if added:
        differences.append(f"{list_names(sorted(added))} added")
    if missing:
        differences.append(f"{list_names(sorted(missing))} missing")
    found = " and ".join(differences) or "their order"
    raise ValueError(
        f"{file} has other columns than {first}: {found}; make them alike first"
    )


def in_order(rows: Any, names: list[str]) -> Any:
    """Return a batch or table with its columns in an order; with equal names, they have it already."""
    return rows if rows.schema.names == names else rows.select(names)
