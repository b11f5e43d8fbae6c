"""Two schemas → the plan of what leads from one to the other, column by column, down into structs.

Columns are compared by name, in the order of ``before``; a path is always one of ``before``. A struct is
compared field by field, also inside lists; any other type is one thing that changes or does not. The
names of the items of lists, and the order of fields, are no difference.
"""

from __future__ import annotations

import difflib
import functools
import operator
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyarrow import types

from rt_frames._display import callers_level
from rt_frames._names import did_you_mean, duplicates, spelled_alike
from rt_frames._schema.alterations import Alteration, AlterationPlan
from rt_frames._schema.casts import refusal
from rt_frames._schema.data_type import is_list, list_kind, storage
from rt_frames._text import MAX_LISTED, Message, list_names
from rt_frames.errors import AlterationError

_MAX_OFFERED = 50  # to look for the names of more columns would take longer than anybody waits for an error


def plan(
    before: pa.Schema,
    after: pa.Schema,
    *,
    rename: Mapping[str, str] | None = None,
    nullable: Mapping[str, bool] | None = None,
    strict: bool = True,
    moved: Mapping[str, str] | None = None,
    compare_nullability: bool = False,
) -> AlterationPlan:
    """Compare two schemas in portable types; everything that does not fit is an AlterationError.

    ``moved`` are renames that the frames' memory proves; they hold where the columns would be on one side only, and
    where columns took each other's names.
    """
    asked, nulls = _check_asked("rename", rename, str), _check_asked("nullable", nullable, bool)
    old, new = set(before.names), set(after.names)
    free = new - old - {name for path, name in asked.items() if "." not in path}
    proven = {a: b for a, b in (moved or {}).items() if a not in asked and a not in new and b in free}
    swapped = _follow(moved or {}, moved or {}, operator.eq)  # columns that took each other's names
    if swapped.keys().isdisjoint([*asked, *asked.values()]):
        proven |= swapped
    comparison = _Comparison({**proven, **asked}, nulls, moved or {}, compare_nullability)
    found = comparison.compare(list(before), list(after))
    if comparison.one_sided and strict:
        raise AlterationError(comparison.advice(strict=True))
    if comparison.one_sided and not found:
        warnings.warn(comparison.advice(strict=False), stacklevel=callers_level())
    for option, paths in (("rename", asked), ("nullable", nulls)):
        if unknown := [path for path in paths if path not in comparison.seen]:
            raise AlterationError(
                f"{option} names {unknown[0]!r}, but no such column is on both sides; paths are those of before; "
                f"{did_you_mean(unknown[0], comparison.seen)}"
            )
    return AlterationPlan(found)


def _check_asked(option: str, asked: Any, kind: type) -> Mapping[str, Any]:
    if asked is None:
        return {}
    if not isinstance(asked, Mapping):
        raise TypeError(f"{option}: expected a dict by path, got {type(asked).__name__}")
    for path, value in asked.items():
        if not isinstance(path, str) or not isinstance(value, kind):
            raise TypeError(f"{option}: expected {{path: {kind.__name__}}}, got {{{path!r:.100}: {value!r:.100}}}")
    return asked


@dataclass
class _Comparison:
    rename: Mapping[str, str]
    nullable: Mapping[str, bool]
    moved: Mapping[str, str]
    compare_nullability: bool
    seen: set[str] = field(default_factory=set)
    one_sided: list[tuple[str, list[pa.Field], list[pa.Field]]] = field(default_factory=list)  # with their prefix

    def compare(
        self, before: list[pa.Field], after: list[pa.Field], prefix: str = "", lists: str = ""
    ) -> list[Alteration]:
        """Compare the columns of two schemas, or the fields of two structs, whose paths begin with ``prefix``."""
        targets = [self.rename.get(prefix + column.name, column.name) for column in before]
        free, gone, found = {column.name: column for column in after}, [], []
        if len(free) < len(after) or len(set(targets)) < len(targets):
            raise _doubles(before, after, prefix, targets)
        for old, target in zip(before, targets, strict=True):
            path, new = prefix + old.name, free.pop(target, None)
            if new is not None:
                found += self._compare_column(path, old, new, lists)
            elif target == old.name:
                gone.append(old)
            else:
                offer = did_you_mean(target, [column.name for column in after])
                text = f"rename: {path!r} to {target!r}, but after has no column {prefix + target!r}; {offer}"
                raise AlterationError(text)
        if gone or free:
            self.one_sided.append((prefix, gone, list(free.values())))
        return found

    def _compare_column(self, path: str, old: pa.Field, new: pa.Field, lists: str) -> list[Alteration]:
        self.seen.add(path)
        rename = new.name if new.name != old.name else None
        nullable = self.nullable.get(path, new.nullable if self.compare_nullability else None)
        # frames are nullable whatever their tables are, so only "not null" is known of any side
        if nullable == old.nullable and (self.compare_nullability or not nullable):
            nullable = None
        before, after = storage(old.type), storage(new.type)
        item, new_item = _innermost(before, after)
        data_type, inside = None, []
        if types.is_struct(item) and types.is_struct(new_item):
            if before != after or self.rename or self.nullable:  # which may be about something inside
                inside = self._compare_inside(path, before, after, lists)
        elif item != new_item or (self.compare_nullability and before != after):
            data_type = _check_cast(path, before, after)
        changes = rename is not None or data_type is not None or nullable is not None
        if (changes or inside) and ("." in old.name or "." in new.name):
            raise AlterationError(
                f"column {path!r} cannot be changed{f' to {rename!r}' if rename else ''}: a dot separates the levels "
                "of a path, so no path leads to a name with a dot; keep its name and type, or create a new table"
            )
        if not changes:
            return inside
        return [Alteration(path, rename, data_type, nullable, before=before, lists=lists), *inside]

    def _compare_inside(self, path: str, before: pa.DataType, after: pa.DataType, lists: str) -> list[Alteration]:
        """Compare structs field by field, also those in lists, or in lists of lists."""
        if types.is_struct(before):
            return self.compare(list(before), list(after), f"{path}.", lists)
        item, kind = before.value_field, list_kind(before)[0]
        new = after.value_field.with_name(item.name)
        return self._compare_column(f"{path}.{item.name}", item, new, kind if lists in ("", "list") else lists)

    def advice(self, *, strict: bool) -> Message:
        """Say what helps where columns are on one side only: the call that takes them for renamed, where one may."""
        gone = [prefix + column.name for prefix, columns, _ in self.one_sided for column in columns]
        come = [prefix + column.name for prefix, _, columns in self.one_sided for column in columns]
        sides = [f"only {side}: {list_names(names)}" for side, names in (("before", gone), ("after", come)) if names]
        text = f"before and after don't have the same columns; {'; '.join(sides)}; "
        text += "the service can neither add nor drop columns"
        if not strict:
            text += "; they are left alone, and nothing else differs, so nothing is altered"
        guessed, casts, unsure, candidates = self._guess()
        offers = _follow(self.moved, gone, lambda _, last: last in come) | guessed
        if not offers and not unsure:
            hint = "make both sides alike, or leave such columns alone with {}" if strict else ""
            return Message(text, hint, strict=False)
        asked = {path: name for path, name in self.rename.items() if path in self.seen}
        rename = {**asked, **offers, **dict.fromkeys(unsure[:MAX_LISTED], "…")}
        all_renamed = not unsure and len(gone) == len(come) and offers.keys() >= set(gone)
        options = {"rename": rename} if all_renamed else {"rename": rename, "strict": False}
        which = f" to some of {list_names(candidates)}" if unsure else ""
        others = "" if all_renamed else ", which leaves the others alone"
        return Message(text, "".join([f"if they were renamed{which}, pass {{}}{others}", *casts]), **options)

    def _guess(self) -> tuple[dict[str, str], list[str], list[str], list[str]]:
        """Return probable renames and what they cast; where that is not clear, both sides of what is left."""
        offers: dict[str, str] = {}
        casts, unsure, candidates = [], [], []
        for prefix, *both in self.one_sided:
            known = set() if prefix else {*self.moved, *self.moved.values()}
            gone, come = ([column for column in columns if column.name not in known] for columns in both)
            for old, new in _pair_up(gone, come):
                offers[prefix + old.name] = new.name
                known |= {old.name, new.name}
                if old.type != new.type:
                    casts.append(f"; {prefix + old.name!r} is then cast from {old.type} to {new.type}")
            left = [[column.name for column in columns if column.name not in known] for columns in (gone, come)]
            if all(left):
                unsure += [prefix + name for name in left[0]]
                candidates += left[1]
        return offers, casts, unsure, candidates


def _doubles(before: list[pa.Field], after: list[pa.Field], prefix: str, targets: list[str]) -> AlterationError:
    names = [column.name for column in before]
    for some, side in ((names, "before"), ([column.name for column in after], "after")):
        if twice := duplicates(some):
            paths = list_names(prefix + name for name in twice)
            return AlterationError(f"columns occur more than once {side}: {paths}; give each a name of its own")
    target = duplicates(targets)[0]
    both = list_names(prefix + name for name, other in zip(names, targets, strict=True) if other == target)
    return AlterationError(f"columns {both} would all be named {target!r}; rename each to a name of its own")


def _innermost(before: pa.DataType, after: pa.DataType) -> tuple[pa.DataType, pa.DataType]:
    """Go down through lists that are alike to what the innermost of them hold."""
    # is_nested first: most columns are flat
    while types.is_nested(before) and is_list(before) and list_kind(before) == list_kind(after):
        before, after = storage(before.value_type), storage(after.value_type)
    return before, after


def _check_cast(path: str, before: pa.DataType, after: pa.DataType) -> pa.DataType:
    if types.is_null(before):
        text = f"column {path!r} has no type before, and the service never casts such a column to {after}"
        raise AlterationError(Message(text, "create a new table with {}", dtypes={path.partition(".")[0]: "…"}))
    if types.is_null(after):
        raise AlterationError(f"column {path!r} has no values and no type after; cast it there, before it was {before}")
    return after


def _follow(moved: Mapping[str, str], firsts: Iterable[str], ends: Callable[[str, str], bool]) -> dict[str, str]:
    """Follow columns that took the names of others; a chain is left out unless it ends as it should."""
    found: dict[str, str] = {}
    for first in firsts:
        chain, name = {}, first
        while name in moved and name not in chain:
            chain[name] = name = moved[name]
        if ends(first, name):
            found |= chain
    return found


def _pair_up(gone: list[pa.Field], come: list[pa.Field]) -> list[tuple[pa.Field, pa.Field]]:
    """Guess which became which, the surest first."""
    free = {column.name: column for column in come[:_MAX_OFFERED]}
    found: dict[str, pa.Field] = {}
    for fits, choose in _GUESSES:
        for old in gone[:_MAX_OFFERED]:
            fitting = [name for name, new in free.items() if old.name not in found and fits(old.type, new.type)]
            likest = choose(old.name, fitting)
            if len(likest) == 1:
                found[old.name] = free.pop(likest[0])
    return [(old, found[old.name]) for old in gone if old.name in found]


def _is_cast(before: pa.DataType, after: pa.DataType) -> bool:
    return refusal(before, after) is None


_closest = functools.partial(difflib.get_close_matches, n=1)
_GUESSES: tuple[tuple[Callable[..., bool], Callable[..., list[str]]], ...] = (  # which types fit, which names
    (lambda *_: True, spelled_alike),
    (operator.eq, _closest),
    (operator.eq, lambda _, names: names),
    (lambda *_: True, _closest),
    (_is_cast, lambda _, names: names),
)
