"""Python objects in the cells of a column → the one Arrow type that keeps all of them.

A place is the column, a field of its dicts, or the items of its lists and arrays. The
type of each place is inferred separately, by `_TypeInference`:

1. Values that pandas calls missing are nulls. They are left out.
2. Each Python type and each NumPy dtype among the values has a kind, such as "int".
3. All values must be of one kind. Integers and floats together are floats.
4. The kind decides the type, with the finest unit among the values.

Along the way it notes whether Arrow's own conversion to that type is correct
(`arrow_converts`); if not, `to_arrow` converts value by value.
"""

from __future__ import annotations

import datetime
import decimal
import itertools
import operator
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import types

from rt_frames._names import has_control_characters
from rt_frames._schema.data_type import check_level
from rt_frames._schema.portable import CONVERSION_ERRORS, TO_TEXT, zone_name
from rt_frames._text import show_value
from rt_frames.errors import UnsupportedTypeError

# the step into the items of a list; the step into a field is its name
_ITEM = object()
_Steps = tuple[Any, ...]
_Objects = np.ndarray[Any, Any]

# the zone's name follows in brackets
_NAIVE = "datetime without a time zone"
_AWARE = "datetime with a time zone"
# kinds of Python's values, subclasses before their bases
_TYPES = (
    bool,
    datetime.timedelta,
    int,
    float,
    str,
    bytes,
    bytearray,
    memoryview,
    datetime.datetime,
    datetime.date,
    datetime.time,
    decimal.Decimal,
    uuid.UUID,
    dict,
    pa.MonthDayNano,
    list,
    tuple,
    np.ndarray,
    set,
    frozenset,
)
_LISTS = (list, tuple, set, frozenset, np.ndarray)
_ALIKE = {
    "bytearray": "bytes",
    "memoryview": "bytes",
    "tuple": "list",
    "ndarray": "list",
    "frozenset": "set",
}
_FLAT = {
    "bool": pa.bool_(),
    "str": pa.string(),
    "bytes": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
}
_UNITS = ("s", "ms", "us", "ns")
# Arrow converts these correctly, except integers to floats
_PLAIN = frozenset((type(None), bool, int, str, bytes))
_MAY_BE_MISSING = (
    type(None),
    float,
    complex,
    decimal.Decimal,
    type(pd.NaT),
    type(pd.NA),
    np.generic,
)
_NUMPY_KINDS = {
    "b": "bool",
    "i": "int",
    "u": "int",
    "f": "float",
    "U": "str",
    "T": "str",
    "S": "bytes",
}

# before 3, pandas shows Arrow only durations in nanoseconds
_HIDDEN_DURATIONS = int(pd.__version__.partition(".")[0]) < 3


class ObjectType(NamedTuple):
    """The type of a column of objects, and how to convert its values.

    ``arrow_converts``: Arrow's own conversion is correct. ``may_be_missing``: values
    other than None may mean null.
    """

    arrow: pa.DataType
    arrow_converts: bool = True
    may_be_missing: bool = True


def infer(column: str, values: _Objects) -> ObjectType:
    """Return the type of a column of objects. Errors name column, place and row."""
    # text is the most frequent, and has a fast test
    if _is_text(values):
        return ObjectType(pa.large_string())
    inference = _TypeInference(column, values)
    arrow = inference.infer(values.tolist(), [], ())
    # text is large_string in every column of pandas
    if types.is_string(arrow):
        arrow = pa.large_string()
    return ObjectType(arrow, inference.arrow_converts, inference.may_be_missing)


def to_arrow(values: _Objects, target: ObjectType) -> Any:
    """Convert objects to an array, or to chunks if one array cannot hold them."""
    arrow = target.arrow
    if target.arrow_converts:
        return pa.array(values, type=arrow, from_pandas=target.may_be_missing)
    if types.is_temporal(arrow):
        counted = _count_alike(values, arrow)
        if counted is not None:
            return counted
    if arrow == pa.uuid():
        # all other values are missing
        converted = [v.bytes if isinstance(v, uuid.UUID) else None for v in values]
    else:
        converted = [_to_arrow_value(value, arrow) for value in values]
    return pa.array(converted, type=arrow, from_pandas=target.may_be_missing)


def _count_alike(values: _Objects, arrow: pa.DataType) -> pa.Array | None:
    """Convert moments or durations of one NumPy dtype; return None for others."""
    missing = pd.isna(values)
    present = [
        value.to_timedelta64() if isinstance(value, pd.Timedelta) else value
        for value in values[~missing].tolist()
    ]
    if not all(issubclass(python, np.generic) for python in _types(present)):
        return None
    dtypes = _dtypes(present)
    if len(dtypes) != 1:
        return None
    (dtype,) = dtypes
    counts = np.zeros(len(values), np.int64)
    counts[~missing] = _count(np.array(present, dtype), arrow)
    width = pa.int32() if types.is_date32(arrow) else pa.int64()
    return pa.array(counts, mask=missing).cast(width).view(arrow)


class _Cells(NamedTuple):
    """The values at one place of a column, without missing ones."""

    steps: _Steps
    values: list[Any]
    # typed arrays, whose items are at this place
    arrays: list[_Objects]
    # of `values`
    types: set[type]
    # of `arrays`, and of NumPy's scalars in `values`
    dtypes: set[np.dtype[Any]]


class _Leaf(NamedTuple):
    """A value at a place, with its row and kind."""

    row: int
    value: Any
    kind: str


class _TypeInference:
    """The inference of one column's type."""

    def __init__(self, column: str, values: _Objects) -> None:
        self._column = column
        self._values = values
        self.arrow_converts = True
        self.may_be_missing = False

    def infer(
        self, values: list[Any], arrays: list[_Objects], steps: _Steps
    ) -> pa.DataType:
        """Return the type of one place, from its values and its typed arrays."""
        check_level(self._column, len(steps))
        cells = self._present_cells(values, arrays, steps)
        kinds = _kinds(cells)
        if not kinds:
            return pa.null()
        if kinds == {"int", "float"}:
            self._check_exact(cells)
            return pa.float64()
        if len(kinds) > 1:
            raise self._mixed(steps)
        (kind,) = kinds
        return self._infer_kind(kind, cells)

    def _present_cells(
        self, values: list[Any], arrays: list[_Objects], steps: _Steps
    ) -> _Cells:
        value_types = _types(values)
        suspects = {kind for kind in value_types if issubclass(kind, _MAY_BE_MISSING)}
        if suspects:
            values = self._present(values, suspects, steps)
            value_types = _types(values)
        if arrays or suspects - {type(None)}:
            self.may_be_missing = True
        dtypes = {array.dtype for array in arrays if array.size}
        # if all arrays are empty, their dtype decides
        if arrays and not dtypes and not value_types:
            dtypes.add(arrays[0].dtype)
        if any(issubclass(kind, np.generic) for kind in value_types):
            dtypes |= _dtypes(v for v in values if isinstance(v, np.generic))
        if value_types & {np.datetime64, np.timedelta64}:
            self.arrow_converts = False
        return _Cells(steps, values, arrays, value_types, dtypes)

    def _infer_kind(self, kind: str, cells: _Cells) -> pa.DataType:
        steps = cells.steps
        if kind == "dict":
            return self._infer_fields(cells.values, steps, plain=cells.types == {dict})
        if kind in ("list", "set"):
            return self._infer_items(cells)
        if kind in ("int", "float"):
            return self._infer_number(kind, cells)
        if kind == "timedelta":
            return pa.duration(self._unit(cells))
        if kind == _NAIVE:
            return pa.timestamp(self._unit(cells))
        if kind.startswith(_AWARE):
            return self._infer_aware(cells)
        if kind == "time" and any(value.tzinfo for value in cells.values):
            text = "has a time zone, which a time column cannot store; remove the zone"
            raise self._refused(steps, lambda v: v.tzinfo is not None, text)
        if kind in _FLAT:
            return _FLAT[kind]
        if kind == "UUID" and not steps:
            # Arrow converts only their bytes (pyarrow 21)
            self.arrow_converts = False
            return pa.uuid()
        return self._infer_other(kind, cells)

    def _infer_aware(self, cells: _Cells) -> pa.DataType:
        unit = self._unit(cells)
        advice = "with .astimezone(datetime.UTC)"
        zone = zone_name(cells.values[0].tzinfo, self._column, advice)
        return pa.timestamp(unit, zone)

    def _infer_number(self, kind: str, cells: _Cells) -> pa.DataType:
        if all(issubclass(python, np.generic) for python in cells.types):
            common = np.result_type(*cells.dtypes)
            if _kind_of_dtype(common) == kind:
                return pa.from_numpy_dtype(common.newbyteorder("="))
        if kind == "float":
            return pa.float64()
        least, greatest = _ends(cells.values, cells.arrays)
        if least >= -(2**63) and greatest < 2**63:
            return pa.int64()
        if least >= 0 and greatest < 2**64:
            return pa.uint64()
        high = 2**63 if least < 0 else 2**64
        text = "does not fit into 64 bits with the column's other values; convert the column to text"
        raise self._refused(cells.steps, lambda v: not -(2**63) <= v < high, text)

    def _infer_other(self, kind: str, cells: _Cells) -> pa.DataType:
        """Return Arrow's inference for decimals and kinds that are not known here."""
        values = cells.values
        if kind == "Decimal" and any(value.is_infinite() for value in values):
            text = "is infinite, which a decimal column cannot store; replace it, for example with None"
            raise self._refused(cells.steps, lambda v: v.is_infinite(), text)
        reason = ""
        if values and kind != "UUID" and not kind.startswith("NumPy's"):
            try:
                inferred = pa.infer_type(values, from_pandas=True)
                if not types.is_nested(inferred):
                    return inferred
            except CONVERSION_ERRORS as error:
                # of other kinds, Arrow says no more than this error
                if kind == "Decimal":
                    reason = f" ({str(error)[:200]})"
        raise UnsupportedTypeError(
            f"column {self._column!r} holds {kind} values{self._place(cells.steps)}, for which Arrow has no type{reason}; "
            "convert them first, for example to text"
        )

    def _infer_items(self, cells: _Cells) -> pa.DataType:
        values = cells.values
        # one array stands for all
        if cells.types == {np.ndarray} and _are_alike(values):
            values = values[:1]
        typed_arrays: list[_Objects] = []
        if any(issubclass(kind, np.ndarray) for kind in cells.types):
            self._check_arrays(values, cells.steps)
            typed_arrays = [_unmasked(value) for value in values if _is_typed(value)]
            values = [_unmasked(value) for value in values if not _is_typed(value)]
            is_mixed = values or len(_dtypes(typed_arrays)) > 1
            if typed_arrays and is_mixed:
                self.arrow_converts = False
        # Arrow converts sets, but no frozensets (pyarrow 26)
        if any(issubclass(kind, frozenset) for kind in cells.types):
            self.arrow_converts = False
        item = self.infer(_flat(values), typed_arrays, (*cells.steps, _ITEM))
        return pa.list_(item)

    def _check_arrays(self, values: list[Any], steps: _Steps) -> None:
        arrays = [value for value in values if isinstance(value, np.ndarray)]
        for dtype, ndim, kind in {(a.dtype, a.ndim, type(a)) for a in arrays}:
            if ndim == 0:
                text = "is a 0-dimensional array; use its .item()"
                raise self._refused(steps, lambda v: np.ndim(v) == 0, text)
            if not _is_arrows(dtype, ndim, kind):
                self.arrow_converts = False

    def _infer_fields(
        self, present: list[Any], steps: _Steps, *, plain: bool
    ) -> pa.DataType:
        are_alike = plain and set(map(len, present)) == {len(present[0])}
        names = dict.fromkeys(present[0] if are_alike else _flat(present))
        for name in names:
            if not _is_field_name(name):
                text = f"has the key {name!r:.80}, but a field's name must be text without control characters; rename it"
                raise self._refused(steps, lambda v, odd=name: odd in v, text)
        fields = []
        for name in names:
            if are_alike:
                try:
                    values = list(map(operator.itemgetter(name), present))
                except KeyError:
                    # as many names in each dict, but not the same
                    return self._infer_fields(present, steps, plain=False)
            else:
                values = [value[name] for value in present if name in value]
            fields.append((name, self.infer(values, [], (*steps, name))))
        return pa.struct(fields)

    def _present(
        self, values: list[Any], suspects: set[type], steps: _Steps
    ) -> list[Any]:
        """Return the values that pandas does not call missing.

        ``suspects`` are the types of values that may be.
        """
        if suspects == {type(None)}:
            return [value for value in values if value is not None]
        array = np.fromiter(values, dtype=object, count=len(values))
        try:
            missing = pd.isna(array)
        except ArithmeticError:
            text = "is a signalling NaN; replace it, for example with None"
            raise self._refused(steps, _is_signalling_nan, text) from None
        if not missing.any():
            return values
        # Arrow rejects NaT without a unit, and reads NumPy's float32 NaN as a value
        # (pyarrow 26)
        if any(issubclass(kind, np.generic) for kind in _types(array[missing])):
            self.arrow_converts = False
        return array[~missing].tolist()  # type: ignore[no-any-return]  # the array has one dimension

    def _check_exact(self, cells: _Cells) -> None:
        """Raise if floats stand with an integer that no float equals."""
        values = [v for v in cells.values if isinstance(v, int | np.integer)]
        arrays = [array for array in cells.arrays if array.dtype.kind in "iu"]
        if max(map(abs, _ends(values, arrays))) <= 2**53:
            return
        # Arrow refuses all integers beyond 2**53, even those that a float equals
        # (pyarrow 26)
        self.arrow_converts = False
        if any(map(_is_inexact, itertools.chain(values, *arrays))):
            text = (
                "has no exact float, and the column also holds floats; convert it to text, "
                f"for example with df[{self._column!r}].{TO_TEXT}"
            )
            raise self._refused(cells.steps, _is_inexact, text)

    def _unit(self, cells: _Cells) -> str:
        """Return the finest unit of the values. Python's have microseconds."""
        units = {np.datetime_data(dtype)[0] for dtype in cells.dtypes}
        python = (datetime.datetime, datetime.timedelta)
        if any(issubclass(kind, python) for kind in cells.types):
            units.add("us")
        pandas = (pd.Timestamp, pd.Timedelta)
        if any(issubclass(kind, pandas) for kind in cells.types):
            values = [value for value in cells.values if isinstance(value, pandas)]
            if self._has_nanoseconds(values, cells.steps):
                units.add("ns")
        return max(units, key=_UNITS.index)

    def _has_nanoseconds(self, values: list[Any], steps: _Steps) -> bool:
        """Return whether values of pandas have nanoseconds.

        Values of coarser units may lie beyond the years that Arrow or Python can hold.
        """
        units = set(map(operator.attrgetter("unit"), values))
        is_duration = isinstance(values[0], pd.Timedelta)
        if units != {"ns"}:
            least = min(values)
            greatest = max(values)
            if is_duration:
                # pandas shows Arrow microseconds, in which coarser units may not fit
                # (pandas 3.1)
                fits = pd.Timedelta.min <= least and greatest <= pd.Timedelta.max
                if _HIDDEN_DURATIONS or not fits:
                    self.arrow_converts = False
            elif _is_beyond_python(least) or _is_beyond_python(greatest):
                text = "is beyond the years 1 to 9999; convert the column to datetime64"
                raise self._refused(steps, _is_beyond_python, text)
        name = "nanoseconds" if is_duration else "nanosecond"
        return "ns" in units and any(map(operator.attrgetter(name), values))

    def _place(self, steps: _Steps) -> str:
        if not steps:
            return ""
        path = self._column
        for step in steps:
            path += ".item" if step is _ITEM else f".{step}"
        return f" at {path!r}"

    def _leaves(self, steps: _Steps) -> Iterator[tuple[int, Any]]:
        """Yield every value at a place, with its row."""
        for row, cell in enumerate(self._values):
            for value in _at(cell, steps):
                yield row, value

    def _refused(self, steps: _Steps, test: Any, text: str) -> UnsupportedTypeError:
        """Return the error that shows the first value to pass a test, with its row."""
        for row, value in self._leaves(steps):
            if not _is_missing(value) and test(value):
                cell = f"column {self._column!r}, row {row}{self._place(steps)}"
                return UnsupportedTypeError(f"{cell}: {show_value(value, 60)} {text}")
        return UnsupportedTypeError(f"column {self._column!r}: a value {text}")

    def _mixed(self, steps: _Steps) -> UnsupportedTypeError:
        """Return the error that names the first value of another kind."""
        present = []
        # missing values have a kind only if NumPy gave them a dtype
        typed = []
        for row, value in self._leaves(steps):
            leaf = _Leaf(row, value, _kind(value))
            is_missing = _is_missing(value)
            if not is_missing:
                present.append(leaf)
            if not is_missing or isinstance(value, np.generic):
                typed.append(leaf)
        first, other = _first_unlike(present) or _first_unlike(typed)
        return UnsupportedTypeError(
            f"column {self._column!r} mixes types{self._place(steps)}: {first.kind} in row {first.row}, "
            f"{other.kind} in row {other.row} ({show_value(other.value, 40)}); convert it to one type"
        )


def _first_unlike(leaves: list[_Leaf]) -> list[_Leaf]:
    """Return the first leaf and the first of another kind, if there are two kinds."""
    for leaf in leaves:
        kinds = {leaves[0].kind, leaf.kind}
        if len(kinds) > 1 and kinds != {"int", "float"}:
            return [leaves[0], leaf]
    return []


def _is_text(values: _Objects) -> bool:
    """Return whether all values are text or missing. The first value is a fast test."""
    first = next((value for value in values if value is not None), None)
    if not isinstance(first, str | float):
        return False
    return pd.api.types.infer_dtype(values, skipna=True) == "string"


def _types(values: Iterable[Any]) -> set[type]:
    return set(map(type, values))


def _dtypes(values: Iterable[Any]) -> set[np.dtype[Any]]:
    """Return the dtypes of NumPy values, run by run: hashing a dtype is slow."""
    return {
        dtype for dtype, _ in itertools.groupby(values, operator.attrgetter("dtype"))
    }


def _kinds(cells: _Cells) -> set[str]:
    kinds = set(map(_kind_of_dtype, cells.dtypes))
    for python in cells.types:
        if not issubclass(python, np.generic):
            kinds.add(_kind_of_type(python))
    if "datetime" in kinds:
        kinds.remove("datetime")
        moments = [v for v in cells.values if isinstance(v, datetime.datetime)]
        moment_by_zone = {id(moment.tzinfo): moment for moment in moments}
        kinds.update(map(_zoned, moment_by_zone.values()))
    return kinds


def _are_alike(arrays: list[_Objects]) -> bool:
    """Return whether arrays have one dtype, not object, and one dimension."""
    dtypes = _dtypes(arrays)
    if len(dtypes) > 1 or np.dtype(object) in dtypes:
        return False
    return set(map(operator.attrgetter("ndim"), arrays)) == {1}


def _ends(values: list[Any], arrays: list[_Objects]) -> tuple[int, int]:
    """Return the least and the greatest of integers and 0."""
    ends = [0]
    if values:
        ends += [int(min(values)), int(max(values))]
    for array in arrays:
        if array.size:
            ends += [int(array.min()), int(array.max())]
    return min(ends), max(ends)


def _flat(lists: Iterable[Iterable[Any]]) -> list[Any]:
    return list(itertools.chain.from_iterable(lists))


def _at(value: Any, steps: Sequence[Any]) -> Iterator[Any]:
    if not steps:
        yield value
        return
    step, *others = steps
    if step is _ITEM and isinstance(value, _LISTS):
        for item in _unmasked(value):
            yield from _at(item, others)
    elif isinstance(value, dict) and step in value:
        yield from _at(value[step], others)


def _is_missing(value: Any) -> bool:
    try:
        return bool(pd.api.types.is_scalar(value) and pd.isna(value))
    except ArithmeticError:
        # a signalling NaN
        return False


def _is_signalling_nan(value: Any) -> bool:
    return isinstance(value, decimal.Decimal) and value.is_snan()


def _is_inexact(value: Any) -> bool:
    """Return whether no float equals a number."""
    number = int(value) if isinstance(value, np.integer) else value
    try:
        return bool(float(number) != number)
    except OverflowError:
        return True


def _is_beyond_python(value: Any) -> bool:
    """Return whether a moment's year is beyond Python's. pyarrow 26 misreads it."""
    if not isinstance(value, pd.Timestamp):
        return False
    return not datetime.MINYEAR <= value.year <= datetime.MAXYEAR


def _is_typed(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype != object and value.ndim == 1


def _is_field_name(name: Any) -> bool:
    return isinstance(name, str) and name != "" and not has_control_characters(name)


def _unmasked(value: Any) -> Any:
    """Return a value as it is, but an array without its masked items."""
    # the rows of a matrix are matrices again
    if isinstance(value, np.matrix):
        return np.asarray(value)
    if isinstance(value, np.ma.MaskedArray) and value.ndim == 1:
        return value.compressed()
    return value


def _is_arrows(dtype: np.dtype[Any], ndim: int, kind: type) -> bool:
    """Return whether Arrow converts such arrays correctly if all are alike."""
    return (
        ndim == 1
        and kind is np.ndarray
        and dtype.isnative
        and dtype.kind in "biufOUSmM"
        and dtype != "M8[D]"
    )


def _zoned(value: datetime.datetime) -> str:
    return _NAIVE if value.tzinfo is None else f"{_AWARE} ({value.tzinfo!s:.40})"


def _kind(value: Any) -> str:
    if isinstance(value, np.generic):
        return _kind_of_dtype(value.dtype)
    if isinstance(value, datetime.datetime):
        return _zoned(value)
    return _kind_of_type(type(value))


def _kind_of_type(kind: type) -> str:
    for known in _TYPES:
        if issubclass(kind, known):
            return _ALIKE.get(known.__name__, known.__name__)
    return kind.__name__


def _kind_of_dtype(dtype: np.dtype[Any]) -> str:
    if dtype.kind in "mM":
        unit, count = np.datetime_data(dtype)
        if count == 1 and unit in _UNITS:
            return _NAIVE if dtype.kind == "M" else "timedelta"
        if (dtype.kind, count, unit) == ("M", 1, "D"):
            return "date"
    elif dtype.kind != "f" or dtype.itemsize <= 8:
        return _NUMPY_KINDS.get(dtype.kind, f"NumPy's {dtype}")
    return f"NumPy's {dtype}"


def _to_arrow_value(value: Any, arrow: pa.DataType) -> Any:
    """Return a value in a form that Arrow converts correctly."""
    if types.is_map(arrow):
        return None if _is_missing(value) else _to_pairs(value, arrow)
    if isinstance(value, uuid.UUID):
        return str(value) if types.is_large_string(arrow) else value.bytes
    if isinstance(value, dict) and types.is_struct(arrow):
        return _to_fields(value, arrow)
    if types.is_list(arrow) and isinstance(value, _LISTS):
        return _to_items(value, arrow.value_type)
    return _to_flat_value(value, arrow)


def _to_fields(value: dict[Any, Any], arrow: pa.StructType) -> dict[str, Any]:
    fields = {}
    for field in arrow:
        name = field.name
        if name in value:
            fields[name] = _to_arrow_value(value[name], field.type)
    return fields


def _to_items(value: Any, item: pa.DataType) -> Any:
    if isinstance(value, np.ndarray):
        return _to_array_items(value, item)
    if _PLAIN.issuperset(map(type, value)) and not types.is_float64(item):
        return list(value)
    return [_to_arrow_value(item_value, item) for item_value in value]


def _to_flat_value(value: Any, arrow: pa.DataType) -> Any:
    if isinstance(value, np.generic) and _is_missing(value):
        return None
    if types.is_temporal(arrow):
        if isinstance(value, pd.Timedelta):
            value = value.to_timedelta64()
        if isinstance(value, np.datetime64 | np.timedelta64):
            return int(_count(np.array([value]), arrow)[0])
    elif types.is_float64(arrow) and isinstance(value, int | np.integer):
        return float(value)
    return value


def _to_pairs(value: Any, arrow: pa.DataType) -> list[Any]:
    """Return the pairs of a map. A missing pair aborts the process in pyarrow 26."""
    if isinstance(value, dict):
        value = value.items()
    elif not isinstance(value, list | tuple | np.ndarray):
        value = [value]
    pairs = []
    for pair in value:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ValueError("a map must be a dict, or a list of (key, value) tuples")
        key = _to_arrow_value(pair[0], arrow.key_type)
        pairs.append((key, _to_arrow_value(pair[1], arrow.item_type)))
    return pairs


def _to_array_items(array: _Objects, item: pa.DataType) -> Any:
    """Return an array's items, with None for masked ones."""
    kind = array.dtype.kind
    if kind == "O":
        return [_to_arrow_value(value, item) for value in array.tolist()]
    while types.is_list(item):
        item = item.value_type
    if kind in "mM":
        # a plain array: NumPy cannot list a masked matrix (NumPy 2.4)
        moments = np.array(np.ma.getdata(array))
        moments[np.ma.getmaskarray(array)] = "NaT"
        array = np.ma.array(_count(moments, item), mask=np.isnat(moments))
    elif kind in "iu" and types.is_float64(item):
        array = array.astype(float)
    return array.tolist()


def _count(moments: np.ndarray[Any, Any], arrow: pa.DataType) -> np.ndarray[Any, Any]:
    """Convert moments or durations to numbers of a type's unit, or raise."""
    # no unit: the type of missing values is not temporal
    own = np.datetime_data(moments.dtype)[0]
    unit = "D" if types.is_date(arrow) else getattr(arrow, "unit", own)
    counted = moments.astype(f"{moments.dtype.kind}8[{unit}]")
    changed = (counted.astype(moments.dtype) != moments) & ~np.isnat(moments)
    if changed.any():
        raise OverflowError(f"{moments[changed][0]!s} does not fit into {arrow}")
    return counted.astype(np.int64)
