"""Python objects in the cells of a column → the one Arrow type that keeps every one of them.

Each place (the column, a field of its dicts, the items of its lists and arrays) is inferred separately. All its values
must be of one kind (integers and floats together are floats), and its type has the finest unit among them. Values that
pandas calls missing are null everywhere.
"""

from __future__ import annotations

import datetime
import decimal
import itertools
import operator
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.types as is_

from rt_frames._names import has_control_characters
from rt_frames._schema.portable import CONVERSION_ERRORS, TO_TEXT, zone_name
from rt_frames._text import show_value
from rt_frames.errors import UnsupportedTypeError

# levels of dicts and lists in a cell; Arrow's own limit is 64
MAX_DEPTH = 60

# the path component of a list; a field's is its name
_ITEM = object()
_Steps = tuple[Any, ...]
_Objects = np.ndarray[Any, Any]

# the name follows
_NAIVE = "datetime without a time zone"
_AWARE = "datetime with a time zone"
# subclasses before their bases
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
# Arrow takes them as they are, but for whole numbers as floats
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

# before 3, pandas shows Arrow no durations but those of nanoseconds
_HIDDEN_DURATIONS = int(pd.__version__.partition(".")[0]) < 3


class ObjectType(NamedTuple):
    """What a column of objects becomes.

    Arrow itself converts every value rightly where they go ``as_they_are``, and sooner where none ``may_be_missing``
    but None.
    """

    arrow: pa.DataType
    as_they_are: bool = True
    may_be_missing: bool = True


def infer(column: str, values: _Objects) -> ObjectType:
    """Return the type of a column of objects, or the error that names the column, the place in it and the row."""
    # most frequent first
    if _is_text(values):
        return ObjectType(pa.large_string())
    look = _TypeInference(column, values)
    arrow = look.infer(values.tolist(), [], ())
    # pandas' text has one layout, whatever its storage
    return ObjectType(
        pa.large_string() if is_.is_string(arrow) else arrow,
        look.as_they_are,
        look.may_be_missing,
    )


def to_arrow(values: _Objects, target: ObjectType) -> Any:
    """Convert objects; an array, or several where they hold more than Arrow keeps in one."""
    if target.as_they_are:
        return pa.array(values, type=target.arrow, from_pandas=target.may_be_missing)
    if is_.is_temporal(target.arrow) and (
        counted := _count_alike(values, target.arrow)
    ):
        return counted
    if target.arrow == pa.uuid():
        plain = [
            v.bytes if isinstance(v, uuid.UUID) else _plain(v, target.arrow)
            for v in values
        ]
    else:
        plain = [_plain(v, target.arrow) for v in values]
    return pa.array(plain, type=target.arrow, from_pandas=target.may_be_missing)


def _count_alike(values: _Objects, arrow: pa.DataType) -> pa.Array | None:
    """Convert moments or durations that all have one NumPy dtype, or are missing; None of any others."""
    missing = pd.isna(values)
    present = [
        v.to_timedelta64() if isinstance(v, pd.Timedelta) else v
        for v in values[~missing].tolist()
    ]
    if (
        not all(issubclass(kind, np.generic) for kind in _types(present))
        or len(dtypes := _dtypes(present)) != 1
    ):
        return None
    counts = np.zeros(len(values), np.int64)
    counts[~missing] = _count(np.array(present, *dtypes), arrow)
    return (
        pa.array(counts, mask=missing)
        .cast(pa.int32() if is_.is_date32(arrow) else pa.int64())
        .view(arrow)
    )


class _TypeInference:
    """One look at a column of objects."""

    def __init__(self, column: str, values: _Objects) -> None:
        self._column = column
        self._values = values
        self.as_they_are = True
        self.may_be_missing = False

    def infer(
        self, values: list[Any], arrays: list[_Objects], steps: _Steps
    ) -> pa.DataType:
        """Return the type of one place: of the ``values`` and of the items of typed ``arrays`` that lie there."""
        if len(steps) > MAX_DEPTH:
            raise UnsupportedTypeError(
                f"column {self._column!r} is nested over {MAX_DEPTH} levels deep; flatten it"
            )
        present = values
        python = _types(values)
        if unsure := {kind for kind in python if issubclass(kind, _MAY_BE_MISSING)}:
            present = self._present(values, unsure, steps)
            python = _types(present)
        self.may_be_missing |= bool(arrays or unsure - {type(None)})
        scalars = {kind for kind in python if issubclass(kind, np.generic)}
        dtypes = {a.dtype for a in arrays if a.size} or {
            a.dtype for a in arrays[:1] if not python
        }
        if scalars:
            dtypes |= _dtypes(
                [value for value in present if isinstance(value, np.generic)]
            )
            self.as_they_are &= not scalars & {np.datetime64, np.timedelta64}
        kinds = {_kind_of_type(kind) for kind in python - scalars} | {
            _kind_of_dtype(dtype) for dtype in dtypes
        }
        if "datetime" in kinds:
            zones = {
                id(v.tzinfo): v for v in present if isinstance(v, datetime.datetime)
            }
            kinds = kinds - {"datetime"} | set(map(_zoned, zones.values()))
        if kinds == {"int", "float"}:
            self._check_exact(present, arrays, steps)
            return pa.float64()
        if len(kinds) > 1:
            raise self._mixed(steps)
        for kind in kinds:
            if kind == "dict":
                return self._infer_fields(present, steps, plain=python == {dict})
            # one stands for all
            if kind == "list" and python == {np.ndarray} and _are_alike(present):
                present = present[:1]
            return self._infer_kind(
                kind, present, arrays, dtypes, steps, python == scalars
            )
        return pa.null()

    def _infer_kind(
        self,
        kind: str,
        present: list[Any],
        arrays: list[_Objects],
        dtypes: set[Any],
        steps: _Steps,
        numpy_only: bool,
    ) -> pa.DataType:
        if kind in ("list", "set"):
            return self._infer_items(present, steps)
        if kind in ("int", "float"):
            common = np.result_type(*dtypes) if numpy_only else None
            if common is not None and _kind_of_dtype(common) == kind:
                return pa.from_numpy_dtype(common.newbyteorder("="))
            return (
                pa.float64() if kind == "float" else self._whole(present, arrays, steps)
            )
        if kind in (_NAIVE, "timedelta") or kind.startswith(_AWARE):
            unit = self._unit(present, dtypes, steps)
            if kind == "timedelta":
                return pa.duration(unit)
            aware = kind.startswith(_AWARE)
            advice = "with .astimezone(datetime.UTC)"
            return pa.timestamp(
                unit,
                zone_name(present[0].tzinfo, self._column, advice) if aware else None,
            )
        if kind == "time" and any(value.tzinfo for value in present):
            raise self._refused(
                steps,
                lambda v: v.tzinfo is not None,
                "a time of day with a zone; remove the zone",
            )
        if kind in _FLAT:
            return _FLAT[kind]
        if kind == "UUID" and not steps:
            # older Arrow takes only their bytes
            self.as_they_are = False
            return pa.uuid()
        return self._infer_other(kind, present, steps)

    def _infer_other(self, kind: str, present: list[Any], steps: _Steps) -> pa.DataType:
        """Ask Arrow for the type of what has parameters, or is not known here."""
        if kind == "Decimal" and any(
            map(operator.methodcaller("is_infinite"), present)
        ):
            text = "infinite, which no decimal type holds; replace it, for example with None"
            raise self._refused(steps, lambda v: v.is_infinite(), text)
        reason = "make text of them"
        try:
            known = (
                len(present) > 0 and kind != "UUID" and not kind.startswith("NumPy's")
            )
            found = pa.infer_type(present, from_pandas=True) if known else None
            if found is not None and not is_.is_nested(found):
                return found
        except CONVERSION_ERRORS as error:
            reason = str(error)[:200]
        raise UnsupportedTypeError(
            f"column {self._column!r} holds {kind} values{self._place(steps)} for which Arrow has no type ({reason}); "
            "convert them first"
        )

    def _infer_items(self, present: list[Any], steps: _Steps) -> pa.DataType:
        arrays = [value for value in present if isinstance(value, np.ndarray)]
        odd = {(a.dtype, a.ndim, type(a)) for a in arrays}
        if any(ndim == 0 for _, ndim, _ in odd):
            raise self._refused(
                steps,
                lambda v: np.ndim(v) == 0,
                "an array without a dimension; take its item",
            )
        typed = [_unmasked(a) for a in arrays if _is_typed(a)]
        mixed = len(typed) < len(present) or len({dtype for dtype, _, _ in odd}) > 1
        self.as_they_are &= all(_is_arrows(*one) for one in odd) and not (
            typed and mixed
        )
        # Arrow takes other sets
        self.as_they_are &= not any(
            issubclass(kind, frozenset) for kind in _types(present)
        )
        rest = (
            [_unmasked(value) for value in present if not _is_typed(value)]
            if arrays
            else present
        )
        return pa.list_(self.infer(_flat(rest), typed, (*steps, _ITEM)))

    def _infer_fields(
        self, present: list[Any], steps: _Steps, *, plain: bool
    ) -> pa.DataType:
        alike = plain and set(map(len, present)) == {len(present[0])}
        names = dict.fromkeys(present[0] if alike else _flat(present))
        if odd := [
            name
            for name in names
            if not isinstance(name, str) or not name or has_control_characters(name)
        ]:
            text = f"a dict with the key {odd[0]!r:.80}; a field's name is text without control characters; rename it"
            raise self._refused(steps, lambda v: odd[0] in v, text)
        fields = []
        for name in names:
            try:
                get = operator.itemgetter(name)
                values = (
                    list(map(get, present))
                    if alike
                    else [value[name] for value in present if name in value]
                )
            except KeyError:
                # the same number of names, but different ones
                return self._infer_fields(present, steps, plain=False)
            fields.append((name, self.infer(values, [], (*steps, name))))
        return pa.struct(fields)

    def _present(
        self, values: list[Any], unsure: set[type], steps: _Steps
    ) -> list[Any]:
        """Leave out what pandas calls missing."""
        if unsure == {type(None)}:
            return [value for value in values if value is not None]
        array = np.fromiter(values, dtype=object, count=len(values))
        try:
            missing = pd.isna(array)
        except ArithmeticError:
            text = "a signalling NaN; replace it, for example with None"
            raise self._refused(
                steps, lambda v: isinstance(v, decimal.Decimal) and v.is_snan(), text
            ) from None
        if not missing.any():
            return values
        # Arrow rejects NumPy's without a unit, and reads some as values
        self.as_they_are &= not any(
            issubclass(kind, np.generic) for kind in set(map(type, array[missing]))
        )
        return array[~missing].tolist()  # type: ignore[no-any-return]  # for objects, the list of them

    def _whole(
        self, present: list[Any], arrays: list[_Objects], steps: _Steps
    ) -> pa.DataType:
        least, most = _ends([present, *arrays])
        if least >= -(2**63) and most < 2**63:
            return pa.int64()
        if least >= 0 and most < 2**64:
            return pa.uint64()
        high = 2**63 if least < 0 else 2**64
        text = "a whole number that does not fit into 64 bits together with the others; make them text"
        raise self._refused(steps, lambda v: not -(2**63) <= v < high, text)

    def _check_exact(
        self, present: list[Any], arrays: list[_Objects], steps: _Steps
    ) -> None:
        """Whole numbers become floats only where none of them changes."""
        whole: list[Any] = [
            [value for value in present if isinstance(value, int | np.integer)]
        ]
        whole += [array for array in arrays if array.dtype.kind in "iu"]
        if max(map(abs, _ends(whole))) <= 2**53:
            return
        # Arrow also refuses those beyond 2**53 that a float holds exactly
        self.as_they_are = False
        if any(_is_inexact(value) for part in whole for value in part):
            text = (
                "a whole number that no float holds exactly, and other values are floats; to keep them, "
                f"make them all text, for example with df[{self._column!r}].{TO_TEXT}"
            )
            raise self._refused(steps, _is_inexact, text)

    def _unit(self, present: list[Any], dtypes: set[Any], steps: _Steps) -> str:
        """Return the finest unit in use; Python's values have microseconds, those of pandas may have nanoseconds."""
        units = {np.datetime_data(dtype)[0] for dtype in dtypes}
        kinds = _types(present)
        if any(
            issubclass(kind, datetime.datetime | datetime.timedelta) for kind in kinds
        ):
            units.add("us")
        of_pandas = {
            kind for kind in kinds if issubclass(kind, pd.Timestamp | pd.Timedelta)
        }
        if of_pandas:
            found = present
            if of_pandas != kinds:
                found = [
                    value
                    for value in present
                    if isinstance(value, pd.Timestamp | pd.Timedelta)
                ]
            is_duration = isinstance(found[0], pd.Timedelta)
            own = set(map(operator.attrgetter("unit"), found))
            nanoseconds = operator.attrgetter(
                "nanoseconds" if is_duration else "nanosecond"
            )
            if "ns" in own and any(map(nanoseconds, found)):
                units.add("ns")
            if own != {"ns"}:
                least: Any = min(found)
                most: Any = max(found)
                if is_duration:
                    # Arrow misses the overflow from a coarse unit to a finer one
                    fit_any_unit = (
                        pd.Timedelta.min <= least and most <= pd.Timedelta.max
                    )
                    self.as_they_are &= fit_any_unit and not _HIDDEN_DURATIONS
                elif _is_beyond_python(least) or _is_beyond_python(most):
                    text = "a moment beyond the years 1 to 9999; make a datetime64 column of them"
                    raise self._refused(steps, _is_beyond_python, text)
        return max(units, key=_UNITS.index)

    def _place(self, steps: _Steps) -> str:
        path = ".".join(
            [self._column, *("item" if step is _ITEM else step for step in steps)]
        )
        return f" at {path!r}" if steps else ""

    def _leaves(self, steps: _Steps) -> Iterator[tuple[int, Any]]:
        """Return every value at a place, with its row."""
        for row, cell in enumerate(self._values):
            yield from ((row, value) for value in _at(cell, steps))

    def _refused(self, steps: _Steps, test: Any, text: str) -> UnsupportedTypeError:
        """Make the error that shows the first value to which a test applies, with its row."""
        for row, value in self._leaves(steps):
            if not _is_missing(value) and test(value):
                where = f"column {self._column!r}, row {row}{self._place(steps)}"
                return UnsupportedTypeError(
                    f"{where}: {show_value(value, 60)} is {text}"
                )
        return UnsupportedTypeError(f"column {self._column!r}: {text}")

    def _mixed(self, steps: _Steps) -> UnsupportedTypeError:
        """Make the error that names the first value of another kind."""
        leaves = [(row, value, _kind(value)) for row, value in self._leaves(steps)]
        present = [leaf for leaf in leaves if not _is_missing(leaf[1])]
        # missing values have a kind only in an array with a dtype
        typed = [
            leaf
            for leaf in leaves
            if not _is_missing(leaf[1]) or isinstance(leaf[1], np.generic)
        ]
        pairs = ((known[0][2], leaf) for known in (present, typed) for leaf in known)
        unlike = (
            pair
            for pair in pairs
            if {pair[0], pair[1][2]} not in ({pair[0]}, {"int", "float"})
        )
        first, (row, other, kind) = next(unlike)
        code = (
            None
            if steps
            else _code_for_one_kind(
                f"df[{self._column!r}]", [value for _, value, _ in present]
            )
        )
        example = f", for example {code}" if code else ""
        return UnsupportedTypeError(
            f"column {self._column!r} mixes kinds{self._place(steps)}: its first value is {first}, row {row} is {kind} "
            f"({show_value(other, 40)}); make it one kind first{example}"
        )


def _code_for_one_kind(column: str, values: list[Any]) -> str | None:
    """Return the code that makes one kind of values, where it changes none of them."""
    kinds = set(map(_kind, values))
    if kinds <= {"int", "float", "Decimal"} and not any(map(_is_inexact, values)):
        return f"{column}.astype(float)"
    if all(kind.startswith(_AWARE) for kind in kinds):
        return f"pandas.to_datetime({column}, utc=True)"
    if kinds == {"date", _NAIVE}:
        return f"pandas.to_datetime({column})"
    written = {"str", "bool", "int", "float", "Decimal", "date", "time", "UUID"}
    return f"{column}.{TO_TEXT}" if kinds <= written else None


def _is_text(values: _Objects) -> bool:
    """Return whether values are text or missing; where the first is not, it takes no look at the others."""
    first = next((value for value in values if value is not None), None)
    return (
        isinstance(first, str | float)
        and pd.api.types.infer_dtype(values, skipna=True) == "string"
    )


def _types(values: list[Any]) -> set[type]:
    return set(map(type, values))


def _dtypes(values: list[Any]) -> set[np.dtype[Any]]:
    """Return the dtypes of NumPy's values, run by run: to hash one takes longer than to compare two."""
    return {
        dtype for dtype, _ in itertools.groupby(values, operator.attrgetter("dtype"))
    }


def _are_alike(arrays: list[_Objects]) -> bool:
    """Return whether all arrays have one dtype, which is not object, and one dimension."""
    runs = (
        itertools.groupby(arrays, operator.attrgetter(name))
        for name in ("dtype", "ndim")
    )
    return all(
        len(list(itertools.islice(some, 2))) == 1 for some in runs
    ) and _is_typed(arrays[0])


def _ends(parts: list[Any]) -> tuple[int, int]:
    """Return the least and the greatest of whole numbers, which are objects in a list, or typed arrays."""
    ends = [
        (min(p), max(p)) if isinstance(p, list) else (p.min(), p.max())
        for p in parts
        if len(p)
    ]
    return min((int(least) for least, _ in ends), default=0), max(
        (int(most) for _, most in ends), default=0
    )


def _flat(lists: Iterable[Iterable[Any]]) -> list[Any]:
    return list(itertools.chain.from_iterable(lists))


def _at(value: Any, steps: _Steps) -> Iterator[Any]:
    if not steps:
        yield value
    elif steps[0] is _ITEM and isinstance(
        value, list | tuple | set | frozenset | np.ndarray
    ):
        for item in _unmasked(value):
            yield from _at(item, steps[1:])
    elif isinstance(value, dict) and steps[0] in value:
        yield from _at(value[steps[0]], steps[1:])


def _is_missing(value: Any) -> bool:
    try:
        return bool(pd.api.types.is_scalar(value) and pd.isna(value))
    except ArithmeticError:
        # a signalling NaN
        return False


def _is_inexact(value: Any) -> bool:
    """Return whether no float is the same number."""
    number = int(value) if isinstance(value, np.integer) else value
    try:
        return bool(float(number) != number)
    except OverflowError:
        return True


def _is_beyond_python(value: Any) -> bool:
    """Return whether a pandas moment has a year that Python's own cannot have, and that Arrow takes for another."""
    return (
        isinstance(value, pd.Timestamp)
        and not datetime.MINYEAR <= value.year <= datetime.MAXYEAR
    )


def _is_typed(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype != object and value.ndim == 1


def _to_rows(value: Any) -> Any:
    """Return a matrix as an array: the rows of a matrix are matrices, without end."""
    return np.asarray(value) if isinstance(value, np.matrix) else value


def _unmasked(value: Any) -> Any:
    """Leave out what is masked."""
    value = _to_rows(value)
    return (
        value.compressed()
        if isinstance(value, np.ma.MaskedArray) and value.ndim == 1
        else value
    )


def _is_arrows(dtype: np.dtype[Any], ndim: int, kind: type) -> bool:
    """Return whether Arrow converts such an array rightly where all are alike."""
    return (
        ndim == 1
        and kind is np.ndarray
        and dtype.isnative
        and dtype.kind in "biufOUSmM"
        and dtype != "M8[D]"
    )


def _zoned(value: datetime.datetime) -> str:
    return _NAIVE if value.tzinfo is None else f"{_AWARE}, {value.tzinfo!s:.40}"


def _kind(value: Any) -> str:
    if isinstance(value, np.generic):
        return _kind_of_dtype(value.dtype)
    return (
        _zoned(value)
        if isinstance(value, datetime.datetime)
        else _kind_of_type(type(value))
    )


def _kind_of_type(kind: type) -> str:
    name = next((known for known in _TYPES if issubclass(kind, known)), kind).__name__
    return _ALIKE.get(name, name)


def _kind_of_dtype(dtype: np.dtype[Any]) -> str:
    if dtype.kind in "mM":
        unit, count = np.datetime_data(dtype)
        if count == 1 and unit in _UNITS:
            return _NAIVE if dtype.kind == "M" else "timedelta"
        return (
            "date" if (dtype.kind, count, unit) == ("M", 1, "D") else f"NumPy's {dtype}"
        )
    known = dtype.kind in _NUMPY_KINDS and (dtype.kind != "f" or dtype.itemsize <= 8)
    return _NUMPY_KINDS[dtype.kind] if known else f"NumPy's {dtype}"


def _plain(value: Any, arrow: pa.DataType) -> Any:
    """Return a value of Python or pandas that Arrow converts rightly, for one that it does not."""
    if isinstance(value, np.ndarray) and is_.is_list(arrow):
        return _plain_array(value, arrow)
    if isinstance(value, dict) and is_.is_struct(arrow):
        return {f.name: _plain(value[f.name], f.type) for f in arrow if f.name in value}
    if is_.is_map(arrow):
        return None if _is_missing(value) else _plain_pairs(value, arrow)
    if isinstance(value, list | tuple | set | frozenset) and is_.is_list(arrow):
        items = list(value)
        item = arrow.value_type
        are_plain = _PLAIN.issuperset(map(type, items)) and not is_.is_float64(item)
        return items if are_plain else [_plain(one, item) for one in items]
    if isinstance(value, np.floating) and np.isnan(value):
        return None
    if (
        isinstance(value, pd.Timedelta)
        and value is not pd.NaT
        and is_.is_temporal(arrow)
    ):
        value = value.to_timedelta64()
    if isinstance(value, np.datetime64 | np.timedelta64) and (
        np.isnat(value) or is_.is_temporal(arrow)
    ):
        return None if np.isnat(value) else int(_count(np.array([value]), arrow)[0])
    if is_.is_float64(arrow) and isinstance(value, int | np.integer):
        return float(value)
    if isinstance(value, uuid.UUID):
        return str(value) if is_.is_large_string(arrow) else value.bytes
    return value


def _plain_pairs(value: Any, arrow: pa.DataType) -> list[Any]:
    """Return what a map holds; Arrow ends the process where a pair is what it takes for missing."""
    known = isinstance(value, list | tuple | dict | np.ndarray)
    pairs = (
        list(value.items() if isinstance(value, dict) else value) if known else [value]
    )
    if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        raise ValueError("a map is a dict, or a list of tuples of a key and a value")
    return [
        (_plain(key, arrow.key_type), _plain(item, arrow.item_type))
        for key, item in pairs
    ]


def _plain_array(array: _Objects, arrow: pa.DataType) -> Any:
    item = arrow.value_type
    kind = array.dtype.kind
    if kind == "O":
        mask = (
            np.ma.getmaskarray(array) if array.ndim == 1 else np.zeros(len(array), bool)
        )
        return [
            None if hidden else _plain(value, item)
            for value, hidden in zip(_to_rows(array), mask, strict=True)
        ]
    while is_.is_list(item):
        item = item.value_type
    if kind in "mM":
        moments = np.where(
            np.ma.getmaskarray(array),
            np.array("NaT", array.dtype),
            np.ma.getdata(array),
        )
        array = np.ma.array(_count(moments, item), mask=np.isnat(moments))
    elif kind in "iu" and is_.is_float64(item):
        array = array.astype(float)
    return array.tolist()


def _count(moments: np.ndarray[Any, Any], arrow: pa.DataType) -> np.ndarray[Any, Any]:
    """Count moments or durations in the units of a type."""
    # of missing values among others
    own = np.datetime_data(moments.dtype)[0]
    unit = "D" if is_.is_date(arrow) else getattr(arrow, "unit", own)
    counted = moments.astype(f"{moments.dtype.kind}8[{unit}]")
    changed = (counted.astype(moments.dtype) != moments) & ~np.isnat(moments)
    if changed.any():
        raise OverflowError(f"{moments[changed][0]!s} does not fit into {arrow}")
    return counted.astype(np.int64)
