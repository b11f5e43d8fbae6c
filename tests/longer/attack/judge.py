"""Send one frame, and judge what became of it against what the frame held."""

from __future__ import annotations

import dataclasses
import io
import itertools
import logging
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import lance
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset

import rt_frames as rt
from tests.longer.attack import arrow_cells, casts, pandas_cells, polars_cells, values
from tests.longer.attack.make_duckdb import Query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.longer.attack.values import Value

FAILURES = ("WRONG", "UNREADABLE", "FOREIGN", "CRASH", "HANG")
VERDICTS = ("EQUAL", "REFUSED", "STRICT", "LATE", *FAILURES)
SHOWN_CELLS = 6
_POLARS_LACKS = re.compile(
    r"decimal256|, -\d|date64|extension|tz=[+-]"
)  # of Arrow's types, or it has others in their place


@dataclasses.dataclass
class Case:
    """A frame, or several of one schema, and the way they are sent; ``opened`` gives what is sent in their place."""

    kind: str
    pieces: list[Any]
    way: str
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    opened: Callable[[], Any] | None = None

    def describe(self) -> str:
        """Tell all that is needed to build the case by hand, as far as a line can."""
        options = ", ".join(f"{key}={value!r}" for key, value in self.options.items())
        return f"{self.way}({options}) of " + " + ".join(map(describe, self.pieces))


@dataclasses.dataclass
class Column:
    """What one column holds, and what it is promised to be stored as; ``mixed``: whole numbers may become floats."""

    cells: list[Value]
    promised: pa.DataType | None
    mixed: bool = False


@dataclasses.dataclass
class Outcome:
    """What became of a case: a verdict, a short text that is the same for all cases of one cause, and the details."""

    verdict: str
    cause: str = ""
    detail: str = ""
    names: tuple[str, ...] = ()


class Capsule:
    """An object that offers nothing but ``__arrow_c_stream__``."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._frame.__arrow_c_stream__(requested_schema)


def describe(piece: Any) -> str:
    if isinstance(piece, Query):
        return repr(piece)
    if isinstance(piece, pa.Table):
        return "pa.table(" + ", ".join(_arrow_column(piece, name) for name in piece.column_names) + ")"
    columns = [f"{name!r}: {piece[name].dtype} {_shown(piece[name])}" for name in piece.columns]
    index = f", index={piece.index!r}" if isinstance(piece, pd.DataFrame) else ""
    return f"{type(piece).__module__.partition('.')[0]}({', '.join(columns)}{index})"


def _shown(cells: Any) -> str:
    listed = cells.tolist() if isinstance(cells, pd.Series) else cells.to_list()
    return f"{listed[:SHOWN_CELLS]!r}{' …' if len(listed) > SHOWN_CELLS else ''} ({len(listed)} rows)"


def _arrow_column(table: pa.Table, name: str) -> str:
    column = table[name]
    try:
        shown = re.sub(r"\s+", " ", column.to_string(window=3, container_window=3))[:400]
        return f"{name!r}: {column.type} in chunks of {[len(chunk) for chunk in column.chunks]} {shown}"
    except Exception as error:  # noqa: BLE001  # pyarrow cannot show all that it can hold
        return f"{name!r}: {type(error).__name__} where it is shown"


# What a frame holds


def held(case: Case) -> dict[str, Column]:
    """Read all columns that are to be stored, from all pieces."""
    columns: dict[str, Column] = {}
    for piece in case.pieces:
        for name, column in _columns_of(piece, case).items():
            if name in columns:
                columns[name].cells += column.cells
                columns[name].mixed |= column.mixed
            else:
                columns[name] = column
    return columns


def _columns_of(piece: Any, case: Case) -> dict[str, Column]:
    if isinstance(piece, Query):
        piece = piece.table()
    if isinstance(piece, pd.DataFrame):
        return _pandas_columns(pandas_cells.with_index(piece, case.options.get("index")))
    if isinstance(piece, pl.DataFrame):
        return {
            series.name: Column(polars_cells.cells(series), polars_cells.promised_type(series.dtype))
            for series in piece.get_columns()
        }
    return _named(
        (name, Column(arrow_cells.cells(piece.column(i)), _promised(piece.schema, i)))
        for i, name in enumerate(piece.column_names)
    )


def _pandas_columns(frame: pd.DataFrame) -> dict[str, Column]:
    return _named((name, _pandas_column(frame.iloc[:, i])) for i, name in enumerate(frame.columns))


def _named(columns: Iterable[tuple[str, Column]]) -> dict[str, Column]:
    """Put columns under their names; those that share one can only be refused."""
    named: dict[str, Column] = {}
    for name, column in columns:
        if name in named:
            column.cells = [("unknown", "a name that is there twice")] * max(len(column.cells), 1)
        named[name] = column
    return named


def _pandas_column(series: pd.Series) -> Column:
    cells = pandas_cells.cells(series)
    plain = series.dtype.categories.dtype if isinstance(series.dtype, pd.CategoricalDtype) else series.dtype
    kinds = set().union(*map(values.kinds_in, cells)) if pd.api.types.is_object_dtype(plain) else set()
    return Column(
        cells, pandas_cells.promised_type(series), mixed={"int", "float"} <= kinds or {"int", "nan?"} <= kinds
    )


def _promised(schema: pa.Schema, i: int) -> pa.DataType | None:
    try:
        return arrow_cells.promised_type(schema.types[i])
    except KeyError:  # pyarrow has no class for two of the three interval types
        return None


# The ways to send it


def joined(case: Case) -> Any:
    first = case.pieces[0]
    if len(case.pieces) == 1:
        return first
    return pl.concat(case.pieces, rechunk=False) if isinstance(first, pl.DataFrame) else pa.concat_tables(case.pieces)


def _reader(table: pa.Table) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches())


def _without_objects(frame: pl.DataFrame) -> pl.DataFrame:
    """Refuse to hand out what is nothing but addresses in a capsule; nobody could tell them from bytes."""
    if pl.Object in frame.dtypes:
        raise TypeError("Object")
    return frame


def _read_by_arrow(frame: pl.DataFrame) -> pl.DataFrame:
    """Draw no types of Polars' own in a capsule, which Arrow cannot read and so cannot name a column of."""
    pa.RecordBatchReader.from_stream(_without_objects(frame)).read_all()
    return frame


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], type_) for type_ in schema.types], schema=schema)


def _dask(case: Case) -> Any:
    import dask
    import dask.dataframe as dd

    def piece(number: int) -> pd.DataFrame:
        return case.pieces[number]

    dask.config.set({"dataframe.convert-string": False, "scheduler": "synchronous"})
    return dd.from_map(piece, range(len(case.pieces)), meta=case.pieces[0].iloc[:0])


def _lazy_filter(frame: pl.DataFrame) -> pl.LazyFrame:
    return frame.with_row_index("row_").lazy().filter(pl.col("row_") >= 0).drop("row_")


def _scanned(frame: pl.DataFrame) -> pl.LazyFrame:
    file = io.BytesIO()
    _without_objects(frame).write_ipc(file)
    file.seek(0)
    return pl.scan_ipc(file)


def _turned(case: Case) -> Any:
    """Give the columns of every second piece in the opposite order."""
    return (piece[list(piece.columns)[::-1]] if i % 2 else piece for i, piece in enumerate(case.pieces))


WAYS: dict[str, dict[str, Callable[[Case], Any]]] = {
    "pandas": {
        "frame": lambda case: case.pieces[0],
        "iterator": lambda case: iter(case.pieces),
        "turned": _turned,
        "dask": _dask,
    },
    "polars": {
        "frame": joined,
        "lazy": lambda case: joined(case).lazy(),
        "lazy filter": lambda case: _lazy_filter(joined(case)),
        "scanned": lambda case: _scanned(joined(case)),
        "turned": _turned,
        "iterator": lambda case: iter(case.pieces),
        "capsule": lambda case: Capsule(_read_by_arrow(joined(case))),
    },
    "arrow": {
        "table": joined,
        "reader": lambda case: _reader(joined(case)),
        "batches": lambda case: iter(joined(case).to_batches() or [_no_rows(case.pieces[0].schema)]),
        "iterator": lambda case: iter(case.pieces),
        "dataset": lambda case: pyarrow.dataset.dataset(joined(case)),
        "capsule": lambda case: Capsule(joined(case)),
    },
    "duckdb": {
        "relation": lambda case: case.pieces[0].relation(),
        "reader": lambda case: case.pieces[0].relation().to_arrow_reader(7),
        "table": lambda case: case.pieces[0].table(),
        "capsule": lambda case: Capsule(case.pieces[0].relation()),
    },
}


def origin_of(piece: Any) -> str:
    kinds = {pd.DataFrame: "pandas", pl.DataFrame: "polars", pa.Table: "arrow", Query: "duckdb"}
    return kinds[type(piece)]


# The judgement


class Log(logging.Handler):
    """Notes whether a request to create a table was made."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.sent = False

    def emit(self, record: logging.LogRecord) -> None:
        self.sent |= "POST" in record.getMessage()


class Judge:
    """An embedded service in a folder of its own, to which cases are sent one by one."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._log = Log()

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory()
        self.root = Path(self._folder.name)
        self._client = rt.connect(self.root, default=False)
        logger = logging.getLogger("rt_frames")
        logger.addHandler(self._log)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("rt_frames").removeHandler(self._log)
        self._client.close()
        self._folder.cleanup()

    def judge(self, case: Case) -> Outcome:
        """Send a case, compare, and see that the frames are what they were."""
        columns = held(case)
        name = f"t{next(self._numbers)}"
        path = self.root / f"{name}.lance"
        self._log.sent = False
        before = list(map(_state, case.pieces))
        try:
            outcome = self._send(case, name, columns)
            if outcome is None:
                outcome = self._read(case, path, columns)
            elif path.exists():
                outcome = Outcome("WRONG", "refused, and stored all the same", outcome.detail)
        finally:
            shutil.rmtree(path, ignore_errors=True)
        if list(map(_state, case.pieces)) != before or _cells_of(held(case)) != _cells_of(columns):
            return Outcome("WRONG", "the frame was changed by sending it")
        return outcome

    def _send(self, case: Case, name: str, columns: dict[str, Column]) -> Outcome | None:
        data = case.opened() if case.opened else WAYS[origin_of(case.pieces[0])][case.way](case)
        try:
            rt.to_table(data, name, client=self._client, **case.options)
        except (Exception, pl.exceptions.PanicException) as error:  # noqa: BLE001  # it is what is judged
            return self._refusal(case, error, columns)
        return None

    def _refusal(self, case: Case, error: BaseException, columns: dict[str, Column]) -> Outcome:
        text = f"{type(error).__name__}: {str(error)[:600]}"
        named = [name for name in columns if str(name) in str(error) or repr(name)[1:-1] in str(error)]
        cause = _pattern(text, columns)
        ours = isinstance(error, rt.errors.UnsupportedTypeError) or type(error) in (ValueError, TypeError)
        if not named:
            return Outcome("FOREIGN", f"no column named: {cause}", text)
        if isinstance(error, rt.errors.ResponseError):
            return Outcome("LATE", cause, text, tuple(named))
        if not ours:
            return Outcome("FOREIGN", cause, text, tuple(named))
        if self._log.sent and case.way in ("frame", "table"):
            return Outcome("FOREIGN", f"only after sending had begun: {cause}", text, tuple(named))
        asked = case.kind == "labels" or "dtypes" in case.options
        strict = not asked and all(map(_is_promised, columns.values()))
        return Outcome("STRICT" if strict else "REFUSED", cause, text, tuple(named))

    def _read(self, case: Case, path: Path, columns: dict[str, Column]) -> Outcome:
        try:
            stored = lance.dataset(str(path)).to_table()
            found = {
                name: Column(arrow_cells.cells(stored[name]), stored.schema.field(name).type)
                for name in stored.column_names
            }
        except (Exception, pl.exceptions.PanicException) as error:  # noqa: BLE001  # it is what is judged
            text = f"{type(error).__name__}: {str(error)[:600]}"
            return Outcome("UNREADABLE", _pattern(text, columns), text)
        if list(found) != list(columns):
            index = isinstance(case.pieces[0], pd.DataFrame) and set(found) == set(case.pieces[0].columns)
            if index:
                kind = type(case.pieces[0].index).__name__
                return Outcome(
                    "WRONG", "the index is not among the columns", f"{kind}: {list(columns)} became {list(found)}"
                )
            return Outcome("WRONG", "other columns", f"{list(columns)} became {list(found)}")
        targets = case.options.get("dtypes") or {}
        for name, column in columns.items():
            outcome = _compare(name, column, found[name], targets.get(name))
            if outcome is not None:
                return outcome
        return self._read_back(path.stem, stored, found) or Outcome("EQUAL")

    def _read_back(self, name: str, stored: pa.Table, found: dict[str, Column]) -> Outcome | None:
        """Read a table into a frame of each library, and compare it with what Lance reads."""
        table = self._client.table(name)
        try:
            arrow, frame = table.to_arrow(), table.to_pandas()
            wide = [
                name for name in stored.column_names if not _POLARS_LACKS.search(str(stored.schema.field(name).type))
            ]
            polars = table.to_polars(columns=wide) if wide else pl.DataFrame()
        except rt.errors.UnsupportedTypeError as error:  # seconds that no milliseconds reach
            return Outcome("LATE", f"for Polars: {_pattern(str(error), found)}", str(error)[:600])
        except (Exception, pl.exceptions.PanicException) as error:  # noqa: BLE001  # it is what is judged
            return Outcome(
                "UNREADABLE", f"by us: {_pattern(str(error), found)}", f"{type(error).__name__}: {error}"[:600]
            )
        for column, kept in found.items():
            read = {"arrow": arrow_cells.cells(arrow[column]), "pandas": pandas_cells.cells(frame[column])}
            if column in wide:
                read["Polars"] = polars_cells.cells(polars[column])
            for library, cells in read.items():
                plain = [None if library == "pandas" and x == ("float", "nan") else x for x in kept.cells]
                pairs = enumerate(zip(plain, cells, strict=True))
                if bad := next(
                    (f"row {row}: {a!r} is read as {b!r}" for row, (a, b) in pairs if not values.same(b, a)), None
                ):
                    return Outcome(
                        "WRONG", f"read back into {library}: {kept.promised}", f"{column!r}, {bad}", (column,)
                    )
            if arrow.schema.field(column).type != stored.schema.field(column).type:
                return Outcome("WRONG", "read back as another type", f"{column!r}: {arrow.schema.field(column).type}")
        return None


def _is_promised(column: Column) -> bool:
    """Tell whether a column has a type that is promised to be stored, and values that can be."""
    known = all("unknown" not in values.kinds_in(cell) for cell in column.cells)
    return known and column.promised is not None and "null" not in type_key(column.promised)


def _cells_of(columns: dict[str, Column]) -> dict[str, list[Value]]:
    return {name: column.cells for name, column in columns.items()}


def _state(piece: Any) -> Any:
    """Note what sending must not change, besides the values."""
    if isinstance(piece, pd.DataFrame):
        return [
            list(piece.columns),
            list(map(str, piece.dtypes)),
            piece.shape,
            type(piece.index),
            list(piece.index.names),
        ]
    return repr(piece.schema) if not isinstance(piece, Query) else None


def _compare(name: str, expected: Column, found: Column, target: Any) -> Outcome | None:
    if len(expected.cells) != len(found.cells):
        return Outcome("WRONG", "other number of rows", f"{len(expected.cells)} became {len(found.cells)}", (name,))
    if target is None:
        test = lambda a, b: values.same(a, b, mixed=expected.mixed)  # noqa: E731  # the other is just below
    else:
        test = lambda a, b: casts.same_after_cast(a, b, found.promised)  # noqa: E731
    for row, (a, b) in enumerate(zip(expected.cells, found.cells, strict=True)):
        if not test(a, b):
            cast = " by dtypes=" if target is not None else ""
            detail = f"{name!r}, row {row}: {a!r} became {b!r} as {found.promised}"
            return Outcome("WRONG", f"{_where(a, b)}{cast}", detail, (name,))
    if not (expected.promised is None or target is not None or type_key(expected.promised) == type_key(found.promised)):
        return Outcome("WRONG", "other type", f"{name!r}: {expected.promised} became {found.promised}", (name,))
    if _has_small_codes(found.promised):
        return Outcome("WRONG", "codes of a dictionary are not int32", f"{name!r} is {found.promised}", (name,))
    return None


def _has_small_codes(type_: pa.DataType) -> bool:
    if pa.types.is_dictionary(type_):
        return type_.index_type != pa.int32()
    return any(_has_small_codes(type_.field(i).type) for i in range(type_.num_fields))


def _where(expected: Value, found: Value, *, inside: bool = False) -> str:
    """Name the kinds of the first difference, and whether it is inside of a cell, for all values alike."""
    for a, b in _parts(expected, found):
        if not values.same(a, b, mixed=True):
            return _where(a, b, inside=True)
    place = "inside a cell, " if inside else ""
    if expected is None or found is None or expected[0] != found[0]:
        return f"{place}{_kind(expected)} became {_kind(found)}"
    if expected[0] == "ts" and expected[1] == found[1]:
        return f"{place}the same instant in another zone"
    return f"{place}another {_kind(expected)}"


def _parts(expected: Value, found: Value) -> list[tuple[Value, Value]]:
    """Pair what stands in two containers of one kind."""
    match expected, found:
        case ("list", items), ("list", found_items) if len(items) == len(found_items):
            return list(zip(items, found_items, strict=True))
        case ("struct", items), ("struct", found_items):
            by_name = dict(found_items)
            return [(value, by_name.get(name)) for name, value in items]
    return []


def _kind(value: Value) -> str:
    if value is None:
        return "null"
    if value[0] == "ts":
        return "zoned ts" if value[2] else "naive ts"
    return f"unknown {value[1]}" if value[0] == "unknown" else value[0]


def _pattern(text: str, columns: dict[str, Column]) -> str:
    """Take out of a message what differs from case to case."""
    text = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`|<[^>]*>|\([^()]*\)|\[[^\]]*\]", "…", text.replace("\n", " "))
    for name in filter(None, map(str, columns)):
        text = text.replace(name, "…")
    return re.sub(r"[\d.,:+-]*\d", "#", text)[:110]


def type_key(type_: pa.DataType) -> str:
    """Spell a type without what does not matter: names of list items, nullability, how a dictionary is coded."""
    return _spelled(arrow_cells.promised_type(type_))


def _spelled(type_: pa.DataType) -> str:
    if isinstance(type_, pa.BaseExtensionType):
        return type_.extension_name
    if not type_.num_fields:
        return str(type_)
    named = pa.types.is_struct(type_)
    children = [(type_.field(i).name if named else "", _spelled(type_.field(i).type)) for i in range(type_.num_fields)]
    size = type_.list_size if pa.types.is_fixed_size_list(type_) else ""
    return f"{type_.id} {size}<{', '.join(f'{name}: {child}' for name, child in children)}>"


def pieces_of(frame: Any, cuts: list[int]) -> Iterator[Any]:
    """Cut a frame into pieces."""
    for a, b in itertools.pairwise([0, *sorted(cuts), len(frame)]):
        yield frame.iloc[a:b] if isinstance(frame, pd.DataFrame) else frame.slice(a, b - a)
