"""Two schemas → the plan that leads from one to the other.

Columns are compared by name. Changes have the paths of ``before`` and, but for renames
in a chain, its order.
Structs are compared field by field, also inside lists; any other type changes as a
whole. The item names of lists and the order of fields are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import types

from rt_frames._arguments import parse_names
from rt_frames._names import did_you_mean, duplicates, join_path
from rt_frames._schema.alterations import Alteration, AlterationPlan, find_cycles
from rt_frames._schema.casts import family, list_kind_on_path
from rt_frames._schema.data_type import (
    Parents,
    is_list,
    iter_fields,
    list_kind,
    map_types,
    show_type,
    storage,
    value_type,
)
from rt_frames._text import list_names, show_value
from rt_frames.errors import AlterationError

_EXAMPLES = {
    "rename": 'a dict such as {"old": "new"}',
    "nullable": 'a dict such as {"column": False}',
}


def plan(
    before: pa.Schema,
    after: pa.Schema,
    *,
    rename: Mapping[str, str] | None = None,
    nullable: Mapping[str, bool] | None = None,
    add_columns: bool = False,
    drop_columns: str | Sequence[str] = (),
    stored: bool = False,
    shows_extensions: bool = False,
    compare_nullability: bool = False,
    read_type: ReadType | None = None,
    cast: Collection[str] = (),
) -> AlterationPlan:
    """Return the plan that leads from one schema of portable types to another.

    AlterationError if the schemas or the options do not match. If ``before`` is
    ``stored``, a drop counts as done when the name is gone, and a rename when the old
    name is gone and the new name exists; extension types count as their storage, but
    for those of ``after`` if the service ``shows_extensions`` when it describes tables.
    If the library of ``after`` reads a stored type as another, ``read_type`` returns
    that one, which is no change, except in the columns that the caller ``cast``.
    """
    renames = _check_option("rename", rename, str)
    nulls = _check_option("nullable", nullable, bool)
    if renames or nulls:
        renames, nulls = _as_old_paths(before, after, renames, nulls, stored)
    drops = _check_drops(drop_columns, before, after, renames, stored)
    comparison = _Comparison(
        renames,
        nulls,
        stored,
        shows_extensions,
        compare_nullability,
        read_type,
        cast,
    )
    changes = comparison.compare(list(before), list(after))
    comparison.check_new_fields(add_columns)
    comparison.check_on_both_sides("rename", renames)
    comparison.check_on_both_sides("nullable", nulls)
    existing = [renames.get(name, name) for name in before.names]
    gone = {*drops}
    return AlterationPlan(
        changes,
        added=new_columns(comparison.new_columns(), existing),
        dropped=drops,
        left_alone=[path for path in comparison.old_paths() if path not in gone],
    )


def new_columns(columns: Iterable[pa.Field], existing: Iterable[str]) -> pa.Schema:
    """Return the columns to add to a table, nullable because they are null at first."""
    by_lower_case = {name.lower(): name for name in existing}
    fields = []
    for column in columns:
        name = column.name
        if name.lower() in by_lower_case:
            other = by_lower_case[name.lower()]
            raise AlterationError(
                f"add_columns: {name!r} and the table's {other!r} differ only in case; "
                "rename one of them"
            )
        if "." in name:
            raise AlterationError(f"add_columns: {name!r} contains a dot; rename it")
        if types.is_null(column.type):
            raise AlterationError(
                f"add_columns: {name!r} has no values, so its type is unknown; cast it first"
            )
        fields.append(column.with_nullable(True))
    return pa.schema(fields)


def _check_not_taken(name: str, renames: Mapping[str, str]) -> None:
    """Refuse to drop a column whose name another one is to have."""
    for old, new in renames.items():
        if new == name and "." not in old:
            raise ValueError(
                f"drop_columns: {name!r} is to be the new name of {old!r}; nothing was "
                f"sent; make two calls: first drop {name!r}, with a frame without it and "
                "without rename, then rename"
            )


def _check_drops(
    drop_columns: Any,
    before: pa.Schema,
    after: pa.Schema,
    renames: Mapping[str, str],
    stored: bool,
) -> list[str]:
    """Return the columns to drop that still exist."""
    if isinstance(drop_columns, Collection) and len(drop_columns) == 0:
        return []
    old = {*before.names}
    new = {*after.names}
    drops = []
    for name in parse_names("drop_columns", drop_columns):
        if "." in name:
            raise ValueError(
                f"drop_columns: {show_value(name)} is not the name of a whole column"
            )
        _check_not_taken(name, renames)
        if name in new:
            raise ValueError(
                f"drop_columns: the frame has column {name!r}; leave it out of the frame, or of drop_columns"
            )
        if name in renames:
            raise ValueError(
                f"drop_columns: {name!r} is also in rename; leave it out of one of them"
            )
        if name in old:
            drops.append(name)
            continue
        other_case = [known for known in before.names if known.lower() == name.lower()]
        # of a stored table, it may have been dropped before
        if not stored or other_case:
            offer = did_you_mean(name, other_case or before.names)
            raise AlterationError(
                f"drop_columns: before has no column {name!r}; {offer}"
            )
    return drops


def _as_old_paths(
    before: pa.Schema,
    after: pa.Schema,
    rename: Mapping[str, str],
    nullable: Mapping[str, bool],
    stored: bool,
) -> tuple[Mapping[str, str], Mapping[str, bool]]:
    """Translate both options to paths of ``before``, without renames that are done."""
    old_paths = {path for path, *_ in iter_fields(before)}
    new_paths = {path for path, *_ in iter_fields(after)}
    done = _find_done(old_paths, new_paths, rename, stored)
    open_renames = {}
    for path, name in rename.items():
        if path not in done:
            open_renames[_renamed_path(path, done)] = name
    old_by_new = {_renamed_path(path, open_renames): path for path in old_paths}
    paths = []
    for nullable_path in nullable:
        path = _renamed_path(nullable_path, done)
        if path not in old_paths:
            path = old_by_new.get(path, path)
        paths.append(path)
    if twice := duplicates(paths):
        raise AlterationError(
            f"nullable: two paths lead to the same column: {list_names(twice)}; leave one out"
        )
    return open_renames, dict(zip(paths, nullable.values(), strict=True))


def _find_done(
    old_paths: set[str], new_paths: set[str], rename: Mapping[str, str], stored: bool
) -> dict[str, str]:
    """Return the renames that a stored table already has.

    Raise AlterationError if a rename is the wrong way round.
    """
    done: dict[str, str] = {}
    taken = set[str]()
    is_complete = False
    # in rounds: a column may have taken a name that another column gave up
    while not is_complete:
        is_complete = True
        for path, name in rename.items():
            if path in done:
                continue
            current = _renamed_path(path, done)
            target = join_path(current.rpartition(".")[0], name)
            is_gone = current not in old_paths or current in taken
            if target not in old_paths or not is_gone:
                continue
            if path in new_paths and target not in new_paths:
                text = f"rename is the wrong way round: {target!r} is the old name, {path!r} the new one"
                swapped = {target: path.rpartition(".")[2]}
                raise AlterationError(f"{text}; pass rename={swapped}")
            if stored:
                done[path] = name
                taken.add(target)
                is_complete = False
    return done


def _renamed_path(path: str, renames: Mapping[str, str]) -> str:
    """Return a path after renames of its column and of the columns around it."""
    parent, _, name = path.rpartition(".")
    if parent:
        parent = _renamed_path(parent, renames)
    return join_path(parent, renames.get(path, name))


def check_no_cycle(rename: Mapping[str, str]) -> None:
    """Refuse columns that exchange names, as no schema shows whether that is done."""
    for cycle in find_cycles(rename):
        text = f"rename: columns {list_names(cycle)} exchange their names, which a second call would undo"
        raise AlterationError(
            f"{text}; first rename one of them to a third name, in a separate call"
        )


def _check_option(option: str, values: Any, kind: type) -> Mapping[str, Any]:
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise TypeError(
            f"{option}: expected {_EXAMPLES[option]}, got {type(values).__name__}"
        )
    for path, value in values.items():
        if not isinstance(path, str) or not isinstance(value, kind):
            raise TypeError(
                f"{option}: expected {_EXAMPLES[option]}, got {{{path!r:.100}: {value!r:.100}}}"
            )
    return values


def _check_unique(names: list[str], prefix: str, source: str) -> None:
    if twice := duplicates(names):
        paths = list_names(prefix + name for name in twice)
        raise AlterationError(
            f"{source} several columns one name: {paths}; give each its own name"
        )


ReadType = Callable[[pa.DataType], pa.DataType | None]


class _Unmatched(NamedTuple):
    """Fields of one level, top or struct, that only one side has."""

    prefix: str
    old: list[pa.Field]
    new: list[pa.Field]


@dataclass
class _Comparison:
    rename: Mapping[str, str]
    nullable: Mapping[str, bool]
    is_stored: bool
    shows_extensions: bool
    compare_nullability: bool
    read_type: ReadType | None
    cast: Collection[str]
    seen: set[str] = field(default_factory=set)
    unmatched: list[_Unmatched] = field(default_factory=list)

    def compare(
        self,
        before: list[pa.Field],
        after: list[pa.Field],
        prefix: str = "",
        parents: Parents = (),
    ) -> list[Alteration]:
        """Compare columns, or the fields of the struct that ``prefix`` leads to."""
        unmatched_new = {column.name: column for column in after}
        unmatched_old = []
        changes = []
        for old, target in self._match(before, after, prefix):
            path = prefix + old.name
            new = unmatched_new.pop(target, None)
            if new is not None:
                changes += self._compare_column(path, old, new, parents)
            elif target == old.name:
                unmatched_old.append(old)
            else:
                offer = did_you_mean(target, [column.name for column in after])
                text = f"rename: after has no column {prefix + target!r}, the new name of {path!r}; {offer}"
                raise AlterationError(text)
        level = _Unmatched(prefix, unmatched_old, list(unmatched_new.values()))
        self.unmatched.append(level)
        return changes

    def _match(
        self, before: list[pa.Field], after: list[pa.Field], prefix: str
    ) -> list[tuple[pa.Field, str]]:
        """Return each column with its new name, and refuse names that occur twice."""
        old_names = [column.name for column in before]
        new_names = [column.name for column in after]
        targets = [self.rename.get(prefix + name, name) for name in old_names]
        _check_unique(old_names, prefix, "before gives")
        _check_unique(new_names, prefix, "after gives")
        _check_unique(targets, prefix, "rename gives")
        return list(zip(before, targets, strict=True))

    def _compare_column(
        self,
        path: str,
        old: pa.Field,
        new: pa.Field,
        parents: Parents,
    ) -> list[Alteration]:
        self.seen.add(path)
        before = old.type
        after = new.type
        if self.is_stored:
            before, after = _as_described(before, after, self.shows_extensions)
            if before != after and self._is_only_read(path, before, after):
                after = before
        inside = []
        data_type = None
        item, new_item = _innermost(before, after)
        if not types.is_struct(item) or not types.is_struct(new_item):
            data_type = self._new_type(path, before, after)
        # an option may concern a nested field of equal structs
        elif before != after or self.rename or self.nullable:
            inside = self._compare_inside(path, old.type, new.type, parents)
        rename = None
        if new.name != old.name:
            rename = new.name
        nullable = self._new_nullability(path, old, new)
        is_changed = rename is not None or data_type is not None or nullable is not None
        if (is_changed or inside) and ("." in old.name or "." in new.name):
            raise _dot_error(path, rename)
        if not is_changed:
            return inside
        lists = list_kind_on_path(parents)
        change = Alteration(
            path, rename, data_type, nullable, before=before, lists=lists
        )
        return [change, *inside]

    def _is_only_read(self, path: str, before: pa.DataType, after: pa.DataType) -> bool:
        """Return whether the frame's library reads the stored type as the new one."""
        column = path.partition(".")[0]
        if self.read_type is None or self.rename.get(column, column) in self.cast:
            return False
        return bool(self.read_type(before) == after)

    def _new_type(
        self, path: str, before: pa.DataType, after: pa.DataType
    ) -> pa.DataType | None:
        """Return the type to cast a column to, or None if it has that type."""
        have = _comparable(before)
        want = _comparable(after)
        item, new_item = _innermost(have, want)
        is_alike = item == new_item and _list_kinds(have) == _list_kinds(want)
        if is_alike and not (self.compare_nullability and have != want):
            return None
        has_extension = _is_extension(item) or _is_extension(new_item)
        if has_extension and not self.is_stored:
            text = f"column {path!r}: the service cannot cast {show_type(before)} to {show_type(after)}"
            raise AlterationError(f"{text}; keep its type, or create a new table")
        if types.is_null(before):
            text = f"column {path!r} has no type before, so the service cannot cast it to {show_type(after)}"
            raise AlterationError(f"{text}; create a new table")
        if types.is_null(after):
            raise AlterationError(
                f"column {path!r} has no values after, so its type is unknown; cast it, for example to {show_type(before)}, its type before"
            )
        return after

    def _new_nullability(self, path: str, old: pa.Field, new: pa.Field) -> bool | None:
        nullable: bool | None = self.nullable.get(path)
        if nullable is None and self.compare_nullability:
            nullable = new.nullable
        # frames are always nullable, so that only "not null" carries information
        is_known = self.is_stored or self.compare_nullability
        if nullable == old.nullable and (is_known or not nullable):
            return None
        return nullable

    def _compare_inside(
        self,
        path: str,
        before: pa.DataType,
        after: pa.DataType,
        parents: Parents,
    ) -> list[Alteration]:
        """Compare structs field by field, also structs inside of lists."""
        parents = (*parents, before)
        if types.is_struct(before):
            return self.compare(list(before), list(after), f"{path}.", parents)
        item = before.value_field
        new = after.value_field.with_name(item.name)
        return self._compare_column(f"{path}.{item.name}", item, new, parents)

    def old_paths(self) -> list[str]:
        """Return the paths of fields that only ``before`` has."""
        paths = []
        for level in self.unmatched:
            paths += [level.prefix + old.name for old in level.old]
        return paths

    def new_columns(self) -> list[pa.Field]:
        """Return the columns that only ``after`` has, without fields of structs."""
        # the top level comes last, after the structs in its columns
        return self.unmatched[-1].new

    def check_new_fields(self, add_columns: bool) -> None:
        """Refuse fields that only ``after`` has, but for columns to add."""
        has_new_columns = len(self.new_columns()) > 0
        has_new_fields = any(level.new for level in self.unmatched[:-1])
        if has_new_fields or (has_new_columns and not add_columns):
            raise AlterationError(self._advice(has_new_fields))

    def check_on_both_sides(self, option: str, paths: Iterable[str]) -> None:
        """Refuse an option's paths that are not on both sides."""
        for path in paths:
            if path not in self.seen:
                sides = "before and after"
                if self.is_stored:
                    sides = "the table and the frame"
                raise AlterationError(
                    f"{option}: {path!r} is not a column of both {sides}; "
                    f"{did_you_mean(path, self.seen)}"
                )

    def _advice(self, has_new_fields: bool) -> str:
        """List the columns of one side only, and name the options for them."""
        old_paths = self.old_paths()
        new_paths = []
        for level in self.unmatched:
            new_paths += [level.prefix + new.name for new in level.new]
        text = self._describe_sides(old_paths, new_paths)
        if len(old_paths) == len(new_paths) == 1 and (renames := self._only_rename()):
            text += f"; pass rename={renames} if it was renamed"
            return text if has_new_fields else f"{text}, or add_columns=True if not"
        if has_new_fields:
            return f"{text}; fields cannot be added to a struct; make the structs alike"
        if not old_paths:
            return f"{text}; pass add_columns=True to add them"
        return (
            f"{text}; pass rename={{…}} for renamed columns, or add_columns=True for new "
            "ones, with drop_columns=[…] for columns to drop"
        )

    def _describe_sides(self, old_paths: list[str], new_paths: list[str]) -> str:
        text = "before and after have different columns"
        old_side = "before"
        new_side = "after"
        if self.is_stored:
            text = "the table and the frame have different columns"
            old_side = "in the table"
            new_side = "in the frame"
        if old_paths:
            text += f"; only {old_side}: {list_names(old_paths)}"
        if new_paths:
            text += f"; only {new_side}: {list_names(new_paths)}"
        return text

    def _only_rename(self) -> dict[str, str]:
        """Return the renames that match one old to one new field of the same type."""
        (level,) = (level for level in self.unmatched if level.new)
        (new,) = level.new
        if [old.type for old in level.old] != [new.type]:
            return {}
        renames = {
            path: name for path, name in self.rename.items() if path in self.seen
        }
        renames[level.prefix + level.old[0].name] = new.name
        return renames


def _dot_error(path: str, rename: str | None) -> AlterationError:
    target = f" to {rename!r}" if rename else ""
    return AlterationError(
        f"column {path!r} cannot be changed{target}: dots separate nested fields, so no path leads to a name "
        "with a dot; keep its name and type, or create a new table"
    )


def _as_described(
    before: pa.DataType, after: pa.DataType, shows_extensions: bool
) -> tuple[pa.DataType, pa.DataType]:
    """Return the types of a stored and a frame's column as services describe them.

    That is, as their storage. Bytes for a stored UUID, and text for stored JSON, count
    as the stored type, because some libraries read them so. UUIDs and JSON for a column
    of another type stay what they are, if services could not mean them by that type.
    """
    stored = map_types(before, storage)
    plain = map_types(after, storage)
    item, new_item = _innermost(before, after)
    kind = family(storage(new_item))
    if isinstance(item, pa.UuidType) and kind == "binary":
        return stored, stored
    if isinstance(item, pa.JsonType) and kind == "text":
        return stored, stored
    if not _is_extension(new_item) or item == new_item:
        return stored, plain
    if shows_extensions or stored != plain:
        return stored, after
    return stored, plain


def _is_extension(arrow: pa.DataType) -> bool:
    return isinstance(arrow, pa.BaseExtensionType)


def _comparable(arrow: pa.DataType) -> pa.DataType:
    """Return a type with the maps in it in one of their layouts.

    No engine casts a map, and no reader sees in which layout it holds text.
    """

    def in_one_layout(inside: pa.DataType) -> pa.DataType:
        return map_types(inside, _layout) if types.is_map(inside) else inside

    return map_types(arrow, in_one_layout)


def _layout(arrow: pa.DataType) -> pa.DataType:
    """Return a type of flat values or lists in one of its layouts."""
    if is_list(arrow) and not list_kind(arrow)[1]:
        return pa.large_list(arrow.value_field)
    kind = family(value_type(arrow))
    return {"text": pa.large_string(), "binary": pa.large_binary()}.get(kind, arrow)


def _list_kinds(arrow: pa.DataType) -> list[str]:
    """Return the kinds of the lists around a type's items, outermost first."""
    kinds = []
    while is_list(arrow):
        kinds.append(list_kind(arrow)[0])
        arrow = arrow.value_type
    return kinds


def _innermost(
    before: pa.DataType, after: pa.DataType
) -> tuple[pa.DataType, pa.DataType]:
    """Return the item types of two types, as far as both are lists of one size."""
    # is_nested first, which is fast: most columns are flat
    while types.is_nested(before) and is_list(before) and is_list(after):
        if list_kind(before)[1] != list_kind(after)[1]:
            break
        before = before.value_type
        after = after.value_type
    return before, after
