"""Two schemas → the plan that leads from one to the other, column by column, down into structs.

Columns are compared by name, in the order of ``before``; paths are those of ``before``. Structs are compared field by
field, also inside lists; any other type changes as a whole. The item names of lists and the order of fields are
ignored.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyarrow import types

from rt_frames._display import callers_level
from rt_frames._names import closest_names, did_you_mean, duplicates, join_path
from rt_frames._schema.alterations import Alteration, AlterationPlan
from rt_frames._schema.casts import list_kind_on_path
from rt_frames._schema.data_type import (
    is_list,
    iter_fields,
    list_kind,
    map_types,
    storage,
)
from rt_frames._text import Message, list_names
from rt_frames.errors import AlterationError

# pairs of names to compare; more would delay the error
_MAX_COMPARED = 2500


def plan(
    before: pa.Schema,
    after: pa.Schema,
    *,
    rename: Mapping[str, str] | None = None,
    nullable: Mapping[str, bool] | None = None,
    strict: bool = True,
    stored: bool = False,
    compare_nullability: bool = False,
) -> AlterationPlan:
    """Compare two schemas in portable types; everything that does not fit is an AlterationError.

    Where ``before`` is what is ``stored``, renames of which the old name is gone and the new one there are done, and
    extension types count as their storage, which is all that a service tells.
    """
    asked = _check_asked("rename", rename, str)
    nulls = _check_asked("nullable", nullable, bool)
    if asked or nulls:
        asked, nulls = _to_paths_of(before, after, asked, nulls, stored)
    sides = ("in the table", "in the frame") if stored else ("before", "after")
    comparison = _Comparison(asked, nulls, stored, compare_nullability, sides)
    found = comparison.compare(list(before), list(after))
    if comparison.one_sided and strict:
        raise AlterationError(comparison.advice(strict=True))
    if comparison.one_sided and not found:
        warnings.warn(comparison.advice(strict=False), stacklevel=callers_level())
    for option, paths in (("rename", asked), ("nullable", nulls)):
        if unknown := [path for path in paths if path not in comparison.seen]:
            raise AlterationError(
                f"{option} names {unknown[0]!r}, but no such column is on both sides; "
                f"{did_you_mean(unknown[0], comparison.seen)}"
            )
    return AlterationPlan(found)


def _to_paths_of(
    before: pa.Schema,
    after: pa.Schema,
    rename: Mapping[str, str],
    nullable: Mapping[str, bool],
    stored: bool,
) -> tuple[Mapping[str, str], Mapping[str, bool]]:
    """Return what is asked for by the paths of ``before``, without the renames that are done."""
    old, new = ({path for path, *_ in iter_fields(side)} for side in (before, after))
    # the given path → where the column is now
    done: dict[str, str] = {}

    def now(path: str) -> str:
        parent, _, name = path.rpartition(".")
        return done.get(path) or join_path(parent and now(parent), name)

    taken = set[str]()
    found = -1
    # one may have taken a name that another gave up
    while found < len(done):
        found = len(done)
        for path in rename.keys() - done.keys():
            here = now(path)
            there = join_path(here.rpartition(".")[0], rename[path])
            if there not in old or (here in old and here not in taken):
                continue
            if path in new and there not in new:
                text = f"rename is the wrong way round: {there!r} is the name before, and {path!r} the one after"
                raise AlterationError(
                    Message(text, "pass {}", rename={there: path.rpartition(".")[2]})
                )
            if stored:
                done[path] = there
                taken.add(there)
    left = {now(path): name for path, name in rename.items() if path not in done}

    def later(path: str) -> str:
        parent, _, name = path.rpartition(".")
        return join_path(parent and later(parent), left.get(path, name))

    renamed = {later(path): path for path in old} if left else {}
    paths = [
        path if path in old else renamed.get(path, path) for path in map(now, nullable)
    ]
    if twice := duplicates(paths):
        raise AlterationError(
            f"nullable names one column twice: {list_names(twice)}; leave one out"
        )
    return left, dict(zip(paths, nullable.values(), strict=True))


def check_no_cycle(rename: Mapping[str, str]) -> None:
    """Refuse columns that exchange their names: the schema does not tell whether they have done so."""
    for start in rename:
        seen = [start]
        while (
            path := join_path(seen[-1].rpartition(".")[0], rename[seen[-1]])
        ) in rename and path not in seen:
            seen.append(path)
        if path == start and len(seen) > 1:
            text = f"rename: columns {list_names(seen)} exchange their names, which a second call would undo"
            raise AlterationError(
                f"{text}; rename one of them to a third name first, in a call of its own"
            )


def _check_asked(option: str, asked: Any, kind: type) -> Mapping[str, Any]:
    if asked is None:
        return {}
    if not isinstance(asked, Mapping):
        raise TypeError(
            f"{option}: expected a dict by path, got {type(asked).__name__}"
        )
    for path, value in asked.items():
        if not isinstance(path, str) or not isinstance(value, kind):
            raise TypeError(
                f"{option}: expected {{path: {kind.__name__}}}, got {{{path!r:.100}: {value!r:.100}}}"
            )
    return asked


@dataclass
class _Comparison:
    rename: Mapping[str, str]
    nullable: Mapping[str, bool]
    is_stored: bool
    compare_nullability: bool
    # what they are called
    sides: tuple[str, str]
    seen: set[str] = field(default_factory=set)
    # with their prefix
    one_sided: list[tuple[str, list[pa.Field], list[pa.Field]]] = field(
        default_factory=list
    )

    def compare(
        self,
        before: list[pa.Field],
        after: list[pa.Field],
        prefix: str = "",
        parents: tuple[pa.DataType, ...] = (),
    ) -> list[Alteration]:
        """Compare the columns of two schemas, or the fields of two structs, whose paths begin with ``prefix``."""
        targets = [
            self.rename.get(prefix + column.name, column.name) for column in before
        ]
        free = {column.name: column for column in after}
        gone = []
        found = []
        every = {
            "before": [column.name for column in before],
            "after": [column.name for column in after],
        }
        for side, names in (every | {"before, when renamed": targets}).items():
            if twice := duplicates(names):
                paths = list_names(prefix + name for name in twice)
                raise AlterationError(
                    f"columns occur more than once {side}: {paths}; give each a name of its own"
                )
        for old, target in zip(before, targets, strict=True):
            path = prefix + old.name
            new = free.pop(target, None)
            if new is not None:
                found += self._compare_column(path, old, new, parents)
            elif target == old.name:
                gone.append(old)
            else:
                offer = did_you_mean(target, every["after"])
                text = f"rename: {path!r} to {target!r}, but after has no column {prefix + target!r}; {offer}"
                raise AlterationError(text)
        if gone or free:
            self.one_sided.append((prefix, gone, list(free.values())))
        return found

    def _compare_column(
        self,
        path: str,
        old: pa.Field,
        new: pa.Field,
        parents: tuple[pa.DataType, ...],
    ) -> list[Alteration]:
        self.seen.add(path)
        rename = new.name if new.name != old.name else None
        nullable = self.nullable.get(
            path, new.nullable if self.compare_nullability else None
        )
        # frames are always nullable, so only "not null" carries information
        is_known = self.is_stored or self.compare_nullability
        if nullable == old.nullable and (is_known or not nullable):
            nullable = None
        before = old.type
        after = new.type
        if self.is_stored:
            before, after = _as_described(before, after)
        item, new_item = _innermost(before, after)
        data_type = None
        inside = []
        if types.is_struct(item) and types.is_struct(new_item):
            # it may concern a nested field
            if before != after or self.rename or self.nullable:
                inside = self._compare_inside(path, old.type, new.type, parents)
        elif item != new_item or (self.compare_nullability and before != after):
            data_type = _check_cast(path, before, after, is_stored=self.is_stored)
        changes = rename is not None or data_type is not None or nullable is not None
        if (changes or inside) and ("." in old.name or "." in new.name):
            raise AlterationError(
                f"column {path!r} cannot be changed{f' to {rename!r}' if rename else ''}: a dot separates the levels "
                "of a path, so no path leads to a name with a dot; keep its name and type, or create a new table"
            )
        if not changes:
            return inside
        lists = list_kind_on_path(parents)
        change = Alteration(
            path, rename, data_type, nullable, before=before, lists=lists
        )
        return [change, *inside]

    def _compare_inside(
        self,
        path: str,
        before: pa.DataType,
        after: pa.DataType,
        parents: tuple[pa.DataType, ...],
    ) -> list[Alteration]:
        """Compare structs field by field, also those in lists, or in lists of lists."""
        parents = (*parents, before)
        if types.is_struct(before):
            return self.compare(list(before), list(after), f"{path}.", parents)
        item = before.value_field
        new = after.value_field.with_name(item.name)
        return self._compare_column(f"{path}.{item.name}", item, new, parents)

    def advice(self, *, strict: bool) -> Message:
        """Name the columns on one side only, and write the call that takes them for renamed."""
        gone = [
            prefix + column.name
            for prefix, columns, _ in self.one_sided
            for column in columns
        ]
        come = [
            prefix + column.name
            for prefix, _, columns in self.one_sided
            for column in columns
        ]
        both = " and ".join(side.removeprefix("in ") for side in self.sides)
        text = f"{both} don't have the same columns"
        for side, names in zip(self.sides, (gone, come), strict=True):
            if names:
                text += f"; only {side}: {list_names(names)}"
        text += "; the service can neither add nor drop columns"
        if not strict:
            text += (
                "; they are left alone, and nothing else differs, so nothing is altered"
            )
        pairs = [
            (prefix + old.name, old, new)
            for prefix, *both in self.one_sided
            for old, new in _pair_up(*both)
        ]
        if not pairs:
            hint = "make both sides alike, name renamed columns with rename= (--rename), or leave them alone with {}"
            return Message(text, hint if strict else "", strict=False)
        renames = {
            path: name for path, name in self.rename.items() if path in self.seen
        }
        renames |= {path: new.name for path, _, new in pairs}
        casts = [
            f"; {path!r} is then cast from {a.type} to {b.type}"
            for path, a, b in pairs
            if a.type != b.type
        ]
        if len(pairs) == len(gone) == len(come):
            return Message(
                text, "".join(["if they were renamed, pass {}", *casts]), rename=renames
            )
        hint = "".join(
            ["if they were renamed, pass {}, which leaves the others alone", *casts]
        )
        return Message(text, hint, rename=renames, strict=False)


def _pair_up(
    gone: list[pa.Field], come: list[pa.Field]
) -> list[tuple[pa.Field, pa.Field]]:
    """Pair columns of one type whose names are alike, and those that alone are left over then, whatever they are."""
    pairs = []
    left = []
    free = {column.name: column for column in come}
    if len(gone) * len(come) > _MAX_COMPARED:
        return []
    for old in gone:
        if alike := closest_names(
            old.name, [name for name, new in free.items() if new.type == old.type]
        ):
            pairs.append((old, free.pop(alike[0])))
        else:
            left.append(old)
    return [*pairs, (left[0], *free.values())] if len(left) == len(free) == 1 else pairs


def _as_described(
    before: pa.DataType, after: pa.DataType
) -> tuple[pa.DataType, pa.DataType]:
    """Return the types of a stored column and of a frame's as what they are stored as, which is what services tell.

    What libraries read UUIDs and JSON as is no other type.
    """
    stored = map_types(before, storage)
    plain = map_types(after, storage)
    if isinstance(before, pa.UuidType) and (
        types.is_binary(plain) or types.is_large_binary(plain)
    ):
        return stored, stored
    if isinstance(before, pa.JsonType) and (
        types.is_string(plain) or types.is_large_string(plain)
    ):
        return stored, stored
    if isinstance(after, pa.UuidType) and stored != plain:
        return stored, after
    return stored, plain


def _innermost(
    before: pa.DataType, after: pa.DataType
) -> tuple[pa.DataType, pa.DataType]:
    """Go down through lists of one size, large or not, to what the innermost of them hold."""
    # is_nested first: most columns are flat
    while types.is_nested(before) and is_list(before) and is_list(after):
        if list_kind(before)[1] != list_kind(after)[1]:
            break
        before = before.value_type
        after = after.value_type
    return before, after


def _check_cast(
    path: str, before: pa.DataType, after: pa.DataType, *, is_stored: bool
) -> pa.DataType:
    has_extension = any(
        isinstance(side, pa.BaseExtensionType) for side in _innermost(before, after)
    )
    if has_extension and not is_stored:
        text = f"column {path!r} is {before} before and {after} after, which the service never casts"
        raise AlterationError(f"{text}; keep its type, or create a new table")
    if types.is_null(before):
        text = f"column {path!r} has no type before, and the service never casts such a column to {after}"
        raise AlterationError(
            Message(
                text, "create a new table with {}", dtypes={path.partition(".")[0]: "…"}
            )
        )
    if types.is_null(after):
        raise AlterationError(
            f"column {path!r} has no values and no type after; cast it there, before it was {before}"
        )
    return after
