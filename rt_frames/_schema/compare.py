"""Two schemas → the changes that lead from one to the other, column by column, down into structs.

Columns are compared by name, in the order of ``before``; a path is always one of ``before``. A struct is
compared field by field, also inside lists; any other type is one thing that changes or does not. The
names of the items of lists, and the order of fields, are no difference.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, NamedTuple

from rt_frames._schema.casts import is_list, kind_of_cast, list_kind, refusal
from rt_frames._schema.data_type import to_data_type
from rt_frames.errors import AlterationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

_MOST_NAMED = 10
_MOST_OFFERED = 50  # to look for the names of more columns would take longer than anybody waits for an error


class Change(NamedTuple):
    """What changes about one column; None where nothing does.

    Parameters
    ----------
    path : str
        Of the column, before.
    before : pyarrow.DataType
        Its type before.
    rename, data_type, nullable
        Its new name, its new type, and whether it may hold nulls from now on.
    lists : str
        The kind of the lists that the path leads through; the empty string where it leads through none.
    """

    path: str
    before: pa.DataType
    rename: str | None = None
    data_type: pa.DataType | None = None
    nullable: bool | None = None
    lists: str = ""

    @property
    def kinds(self) -> tuple[str, ...]:
        """What is done: ``renames``; ``widens``, ``narrows`` or ``converts``; ``changes nullability``."""
        return (
            *(("renames",) if self.rename is not None else ()),
            *((kind_of_cast(self.before, self.data_type),) if self.data_type is not None else ()),
            *(("changes nullability",) if self.nullable is not None else ()),
        )

    @property
    def refused(self) -> str | None:
        """Why this service family's engine does not do it, whatever else the request holds."""
        if "`" in self.path:
            return "its paths do not reach a name with a backtick"
        if self.nullable is False and self.lists:
            return "it cannot forbid nulls inside a list"
        if self.data_type is None:
            return None
        if self.lists not in ("", "list"):
            return f"it cannot cast one field of the structs in a {self.lists}"
        return refusal(self.before, self.data_type)


class Comparison:
    """Compare two schemas; `changes` is the result, everything that does not fit is an AlterationError."""

    def __init__(
        self,
        rename: Mapping[str, str],
        nullable: Mapping[str, bool],
        *,
        strict: bool,
        compare_nullability: bool,
    ) -> None:
        self.changes: list[Change] = []
        self._rename = dict(rename)
        self._asked = rename
        self._nullable = nullable
        self._strict = strict
        self._compare_nullability = compare_nullability
        self._anything_asked = bool(rename or nullable)
        self._asked_inside = any("." in path for path in (*rename, *nullable))
        self._seen: set[str] = set()
        self._said: set[pa.DataType] = set()
        self._one_sided: list[tuple[str, Any, list[str], Any, list[str]]] = []

    def run(self, before: pa.Schema, after: pa.Schema, moved: Mapping[str, str]) -> list[Change]:
        """Compare; ``moved`` are renames that hold where the columns would be on one side only."""
        old, new = set(before.names), set(after.names)
        taken = {name for path, name in self._asked.items() if "." not in path}
        for name, target in moved.items():
            if name not in self._asked and name not in new and target in new - old and target not in taken:
                self._rename[name] = target
        self._level("", before, after, "")
        if self._one_sided and self._strict:
            raise AlterationError(self._advice())
        self._check_asked()
        return self.changes

    def _level(self, at: str, before: Any, after: Any, lists: str) -> None:
        names, types = _columns(before, at, "before")
        new_names, new_types = _columns(after, at, "after")
        places = {name: i for i, name in enumerate(new_names)}
        gone = []
        for i, target in enumerate(self._targets(at, names, new_names)):
            place = places.pop(target, None)
            if place is None:
                gone.append(names[i])
                continue
            nullable = None
            if self._anything_asked or self._compare_nullability:
                self._seen.add(at + names[i])
                nullable = self._new_nullable(at + names[i], before.field(i), after.field(place))
            if target != names[i] or nullable is not None or types[i] != new_types[place] or self._asked_inside:
                self._column(at, names[i], target, (types[i], new_types[place]), nullable, lists)
        if gone or places:
            self._one_sided.append((at, before, gone, after, list(places)))

    def _targets(self, at: str, names: list[str], new_names: list[str]) -> list[str]:
        """Give the new name of each column."""
        if not self._rename:
            return names
        targets = [self._rename.get(at + name, name) for name in names]
        if len(set(targets)) < len(targets):
            twice = next(target for i, target in enumerate(targets) if target in targets[:i])
            both = [at + name for name, target in zip(names, targets, strict=True) if target == twice]
            raise AlterationError(
                f"columns {_listed(both)} would all be named {twice!r}; give each a name of its own in rename={{…}}"
            )
        known = set(new_names)
        for name, target in zip(names, targets, strict=True):
            if target not in known and target != name:
                raise AlterationError(
                    f"rename={{{at + name!r}: {target!r}}}: after has no column {at + target!r}; "
                    f"{_did_you_mean(target.removeprefix(at), new_names)}"
                )
        return targets

    def _new_nullable(self, path: str, before: pa.Field, after: pa.Field) -> bool | None:
        wanted = self._nullable.get(path)
        if not self._compare_nullability:
            return wanted
        wanted = after.nullable if wanted is None else wanted
        return None if wanted == before.nullable else wanted

    def _column(
        self,
        at: str,
        name: str,
        target: str,
        types: tuple[pa.DataType, pa.DataType],
        nullable: bool | None,
        lists: str,
    ) -> None:
        path, rename, so_far = at + name, target if target != name else None, len(self.changes)
        inside = _leads_to_structs(*types)
        data_type = None if inside or self._same(*types) else self._checked(path, *types)
        if (rename, data_type, nullable) != (None, None, None):
            self.changes.append(Change(path, types[0], rename, data_type, nullable, lists))
        if inside:
            self._inside(path, *types, lists)
        if len(self.changes) > so_far and ("." in name or "." in (rename or "")):
            raise AlterationError(
                f"column {path!r} cannot be changed{f' to {rename!r}' if rename else ''}: a dot separates the levels "
                "of a path, so none leads to a name with a dot; leave it as it is before, or create the table anew"
            )

    def _inside(self, path: str, before: pa.DataType, after: pa.DataType, lists: str) -> None:
        while is_list(before):
            kind = list_kind(before)[0]
            lists = kind if lists in ("", "list") else lists
            items = before.value_field, after.value_field
            path = f"{path}.{items[0].name}"
            self._seen.add(path)
            nullable = self._new_nullable(path, *items)
            before, after = items[0].type, items[1].type
            if nullable is not None:
                self.changes.append(Change(path, before, nullable=nullable, lists=lists))
        self._level(f"{path}.", before, after, lists)

    def _same(self, before: pa.DataType, after: pa.DataType) -> bool:
        if before == after:
            return True
        if self._compare_nullability or not (is_list(before) and is_list(after)):
            return False
        return list_kind(before) == list_kind(after) and self._same(before.value_type, after.value_type)

    def _checked(self, path: str, before: pa.DataType, after: pa.DataType) -> pa.DataType:
        import pyarrow.types as is_

        if is_.is_null(before):
            raise AlterationError(
                f"column {path!r} has no type before, and the service never casts such a column to {after}; "
                f"create the table anew with dtypes={{{path.partition('.')[0]!r}: …}}"
            )
        if is_.is_null(after):
            raise AlterationError(
                f"column {path!r} has no values and no type after; cast it there, before it was {before}"
            )
        if after not in self._said:
            to_data_type(after, path)
            self._said.add(after)
        return after

    def _check_asked(self) -> None:
        for option, asked in (("rename", self._asked), ("nullable", self._nullable)):
            for path in asked:
                if path not in self._seen:
                    raise AlterationError(
                        f"{option} names {path!r}, but no such column is on both sides; paths are those of before; "
                        f"{_did_you_mean(path, list(self._seen))}"
                    )

    def _advice(self) -> str:
        gone = [at + name for at, _, names, _, _ in self._one_sided for name in names]
        come = [at + name for at, _, _, _, names in self._one_sided for name in names]
        offers = {at + name: new for at, *level in self._one_sided for name, new in _offers(*level).items()}
        sides = [f"only {side}: {_listed(names)}" for side, names in (("before", gone), ("after", come)) if names]
        text = f"before and after don't have the same columns; {'; '.join(sides)}. "
        neither = "The service can neither add nor drop columns"
        if not offers:
            return f"{text}{neither}: make both sides alike, or say strict=False to leave such columns alone"
        text += f"If they were renamed, say rename={ {**self._asked, **offers}!r}"
        if len(offers) == len(gone) == len(come):
            return text
        return f"{text}, strict=False. {neither}; strict=False leaves the others alone"


def _columns(level: Any, at: str, side: str) -> tuple[list[str], list[pa.DataType]]:
    """Give names and types of a schema or struct type."""
    import pyarrow as pa

    if isinstance(level, pa.Schema):
        names, types = level.names, level.types
    else:
        fields = [level.field(i) for i in range(level.num_fields)]
        names, types = [field.name for field in fields], [field.type for field in fields]
    if len(set(names)) < len(names):
        twice = sorted({at + name for name in names if names.count(name) > 1})
        raise AlterationError(f"columns occur more than once {side}: {_listed(twice)}; give each a name of its own")
    return names, types


def _leads_to_structs(before: pa.DataType, after: pa.DataType) -> bool:
    import pyarrow.types as is_

    while is_list(before) and is_list(after) and list_kind(before) == list_kind(after):
        before, after = before.value_type, after.value_type
    return bool(is_.is_struct(before) and is_.is_struct(after))


def _offers(before: Any, gone: list[str], after: Any, come: list[str]) -> dict[str, str]:
    """Guess which column became which: of the same type and alike in name, the only one of a type, alike in name."""
    types = {name: before.field(name).type for name in gone[:_MOST_OFFERED]}
    free = {name: after.field(name).type for name in come[:_MOST_OFFERED]}
    found: dict[str, str] = {}
    for same, cutoff in ((True, 0.6), (True, 0.0), (False, 0.6)):
        for name in [name for name in types if name not in found]:
            fitting = [new for new, arrow in free.items() if arrow == types[name] or not same]
            likest = difflib.get_close_matches(name, fitting, 1, cutoff)
            if likest and (cutoff or len(fitting) == 1):
                found[name] = likest[0]
                del free[likest[0]]
    return {name: found[name] for name in types if name in found}


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names[:_MOST_NAMED])) + (f", … ({len(names):,})" if len(names) > _MOST_NAMED else "")


def _did_you_mean(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, 3) or sorted(known)
    return f"did you mean {_listed(close)}?" if close else "there is none to name"
