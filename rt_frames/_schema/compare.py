"""Two schemas → the plan of what leads from one to the other, column by column, down into structs.

Columns are compared by name, in the order of ``before``; a path is always one of ``before``. A struct is
compared field by field, also inside lists; any other type is one thing that changes or does not. The
names of the items of lists, and the order of fields, are no difference.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyarrow import types

from rt_frames._display import callers_level
from rt_frames._names import did_you_mean, duplicates, join_path
from rt_frames._schema.alterations import Alteration, AlterationPlan
from rt_frames._schema.casts import refusal
from rt_frames._schema.data_type import child_fields, is_list, list_kind
from rt_frames._text import list_names
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

    ``moved`` are renames that the frames' memory proves; they hold where the columns would be on one side only.
    """
    asked, nulls = _check_asked("rename", rename, str), _check_asked("nullable", nullable, bool)
    old, new = set(before.names), set(after.names)
    free = new - old - {name for path, name in asked.items() if "." not in path}
    proven = {a: b for a, b in (moved or {}).items() if a not in asked and a not in new and b in free}
    asked_inside = any("." in path for path in (*asked, *nulls))
    comparison = _Comparison({**proven, **asked}, nulls, asked_inside, compare_nullability)
    found = comparison.compare("", list(before), list(after), "")
    if comparison.one_sided and (strict or not found):
        advice = _advice(comparison.one_sided, asked, moved or {}, strict=strict)
        if strict:
            raise AlterationError(advice)
        warnings.warn(advice, stacklevel=callers_level())
    for option, paths in (("rename", asked), ("nullable", nulls)):
        for path in paths:
            if path not in comparison.seen:
                raise AlterationError(
                    f"{option} names {path!r}, but no such column is on both sides; paths are those of before; "
                    f"{did_you_mean(path, comparison.seen)}"
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
    asked_inside: bool
    compare_nullability: bool
    seen: set[str] = field(default_factory=set)
    one_sided: list[tuple[str, list[pa.Field], list[pa.Field]]] = field(default_factory=list)

    def compare(self, parent: str, before: list[pa.Field], after: list[pa.Field], lists: str) -> list[Alteration]:
        """Compare the columns of two schemas, or the fields of two structs."""
        paths = [join_path(parent, column.name) for column in before]
        targets = [self.rename.get(path, column.name) for path, column in zip(paths, before, strict=True)]
        _check_names(parent, before, after, targets)
        free, gone, found = {column.name: column for column in after}, [], []
        for path, old, target in zip(paths, before, targets, strict=True):
            new = free.pop(target, None)
            if new is None:
                gone.append(old)
            else:
                self.seen.add(path)
                found += self._compare_column(path, old, new, lists)
        if gone or free:
            self.one_sided.append((parent, gone, list(free.values())))
        return found

    def _compare_column(self, path: str, old: pa.Field, new: pa.Field, lists: str) -> list[Alteration]:
        rename = new.name if new.name != old.name else None
        nullable = self._new_nullable(path, old, new)
        before, after = _storage(old.type), _storage(new.type)
        item, new_item = _innermost(before, after)
        data_type, inside = None, []
        if types.is_struct(item) and types.is_struct(new_item):
            if before != after or self.asked_inside:
                inside = self._compare_inside(path, before, after, lists)
        elif _storage(item) != _storage(new_item) or (self.compare_nullability and before != after):
            data_type = _check_cast(path, before, after)
        changes = rename is not None or data_type is not None or nullable is not None
        if (changes or inside) and ("." in old.name or "." in new.name):
            raise AlterationError(
                f"column {path!r} cannot be changed{f' to {rename!r}' if rename else ''}: a dot separates the levels "
                "of a path, so none leads to a name with a dot; leave it as it is before, or create the table anew"
            )
        if not changes:
            return inside
        return [Alteration(path, rename, data_type, nullable, before=before, lists=lists), *inside]

    def _new_nullable(self, path: str, old: pa.Field, new: pa.Field) -> bool | None:
        if not self.compare_nullability:
            return self.nullable.get(path)
        wanted = self.nullable.get(path, new.nullable)
        return None if wanted == old.nullable else wanted

    def _compare_inside(self, path: str, before: pa.DataType, after: pa.DataType, lists: str) -> list[Alteration]:
        """Compare structs field by field, also those in lists, or in lists of lists."""
        found = []
        while is_list(before):
            kind = list_kind(before)[0]
            lists = kind if lists in ("", "list") else lists
            old, new = before.value_field, after.value_field
            path, before, after = join_path(path, old.name), old.type, new.type
            self.seen.add(path)
            nullable = self._new_nullable(path, old, new)
            if nullable is not None:
                found.append(Alteration(path, nullable=nullable, before=before, lists=lists))
        return found + self.compare(path, child_fields(before), child_fields(after), lists)


def _check_names(parent: str, before: list[pa.Field], after: list[pa.Field], targets: list[str]) -> None:
    names, new_names = [column.name for column in before], [column.name for column in after]
    for twice, side in ((duplicates(names), "before"), (duplicates(new_names), "after")):
        if twice:
            paths = list_names(join_path(parent, name) for name in twice)
            raise AlterationError(f"columns occur more than once {side}: {paths}; give each a name of its own")
    for target in duplicates(targets):
        both = [join_path(parent, name) for name, other in zip(names, targets, strict=True) if other == target]
        raise AlterationError(
            f"columns {list_names(both)} would all be named {target!r}; give each a name of its own in rename={{…}}"
        )
    known = set(new_names)
    for name, target in zip(names, targets, strict=True):
        if target != name and target not in known:
            path, wanted = join_path(parent, name), join_path(parent, target)
            offer = did_you_mean(target, new_names)
            raise AlterationError(f"rename={{{path!r}: {target!r}}}: after has no column {wanted!r}; {offer}")


def _storage(arrow: pa.DataType) -> pa.DataType:
    """Give what an extension type is stored as, which is all that the service's words tell of it."""
    return arrow.storage_type if isinstance(arrow, pa.BaseExtensionType) else arrow


def _innermost(before: pa.DataType, after: pa.DataType) -> tuple[pa.DataType, pa.DataType]:
    """Go down through lists that are alike to what the innermost of them hold."""
    # is_nested first: most columns are flat
    while types.is_nested(before) and is_list(before) and list_kind(before) == list_kind(after):
        before, after = before.value_type, after.value_type
    return before, after


def _check_cast(path: str, before: pa.DataType, after: pa.DataType) -> pa.DataType:
    if types.is_null(before):
        raise AlterationError(
            f"column {path!r} has no type before, and the service never casts such a column to {after}; "
            f"create the table anew with dtypes={{{path.partition('.')[0]!r}: …}}"
        )
    if types.is_null(after):
        raise AlterationError(f"column {path!r} has no values and no type after; cast it there, before it was {before}")
    return after


def _chains(gone: list[str], come: list[str], moved: Mapping[str, str]) -> dict[str, str]:
    """Follow columns that took the names of others; a chain of which one is not known is left out."""
    found: dict[str, str] = {}
    for first in gone:
        name, chain = first, {}
        while name in moved and name not in chain:
            chain[name] = moved[name]
            name = moved[name]
        if name in come:
            found |= chain
    return found


def _advice(
    one_sided: list[tuple[str, list[pa.Field], list[pa.Field]]],
    asked: Mapping[str, str],
    moved: Mapping[str, str],
    *,
    strict: bool,
) -> str:
    gone = {join_path(parent, column.name): column for parent, columns, _ in one_sided for column in columns}
    come = {join_path(parent, column.name): column for parent, _, columns in one_sided for column in columns}
    chains = _chains(list(gone), list(come), moved)
    offers = dict(chains)
    for parent, *both in one_sided:
        known = set() if parent else {*moved, *moved.values()}
        left = ([column for column in columns if column.name not in known] for columns in both)
        offers |= {join_path(parent, name): new for name, new in _offers(*left).items()}
    sides = [f"only {side}: {list_names(names)}" for side, names in (("before", gone), ("after", come)) if names]
    text = f"before and after don't have the same columns; {'; '.join(sides)}. "
    text += "" if strict else "With strict=False they are left alone, and nothing else differs: nothing is altered. "
    neither = "The service can neither add nor drop columns"
    if not offers:
        advice = ": make both sides alike, or pass strict=False to leave such columns alone" if strict else ""
        return f"{text}{neither}{advice}"
    casts = [
        f"{path!r} is then cast from {gone[path].type} to {come[new].type}"
        for path, name in offers.items()
        if path in gone and (new := join_path(path.rpartition(".")[0], name)) in come
        if gone[path].type != come[new].type
    ]
    text += f"If they were renamed, pass rename={ {**asked, **offers}!r}"
    if len(offers) - len(chains.keys() - set(gone)) == len(gone) == len(come):
        return "; ".join([text, *casts])
    return "; ".join([f"{text}, strict=False", *casts]) + f". {neither}; strict=False leaves the others alone"


def _offers(gone: list[pa.Field], come: list[pa.Field]) -> dict[str, str]:
    """Guess which became which: of one type and alike in name, the only one of a type, alike in name, the last."""
    known = {column.name: column.type for column in gone[:_MAX_OFFERED]}
    free = {column.name: column.type for column in come[:_MAX_OFFERED]}
    found: dict[str, str] = {}
    for same, cutoff in ((True, 0.6), (True, 0.0), (False, 0.6)):
        for name in [name for name in known if name not in found]:
            fitting = [new for new, arrow in free.items() if arrow == known[name] or not same]
            likest = difflib.get_close_matches(name, fitting, 1, cutoff)
            if likest and (cutoff or len(fitting) == 1):
                found[name] = likest[0]
                del free[likest[0]]
    left = [name for name in known if name not in found]
    if len(left) == len(free) == 1 and refusal(known[left[0]], *free.values()) is None:
        found[left[0]] = next(iter(free))
    return {name: found[name] for name in known if name in found}
