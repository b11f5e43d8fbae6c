"""Two schemas → their differences, as an `AlterationPlan`.

Columns are compared by name, in the order of ``before``; paths are always those of ``before``. Inside a struct,
and inside a list of structs, the path goes down; any other nested type changes as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rt_frames._alterations import Alteration, AlterationPlan, Change
from rt_frames._mismatch import close_names, one_sided, unknown_path
from rt_frames.errors import AlterationError

if TYPE_CHECKING:
    import pyarrow as pa


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
    """Compare two schemas in portable types; ``moved`` are renames that the frames' memory proves."""
    for option, value in (("rename", rename), ("nullable", nullable)):
        if value is not None and not isinstance(value, Mapping):
            raise TypeError(f"{option}: expected a dict by path, got {type(value).__name__}")
    comparison = _Comparison(dict(rename or {}), dict(nullable or {}), dict(moved or {}), strict, compare_nullability)
    comparison.level("", list(before), list(after))
    comparison.check_all_used([field.name for field in before])
    return AlterationPlan(comparison.alterations, comparison.changes)


class _Comparison:
    """Walks two schemas at once and notes what differs."""

    def __init__(
        self, rename: dict[str, str], nullable: dict[str, bool], moved: dict[str, str], strict: bool, all_nulls: bool
    ) -> None:
        self._rename, self._nullable, self._moved = rename, nullable, moved
        self._strict, self._all_nulls = strict, all_nulls
        self._met: set[str] = set()
        self.alterations: list[Alteration] = []
        self.changes: list[Change] = []

    def level(self, prefix: str, before: list[pa.Field], after: list[pa.Field]) -> None:
        """Compare the columns of a frame, or the fields of a struct."""
        olds, news = [f.name for f in before], {f.name: f for f in after}
        for names in (olds, [f.name for f in after]):
            if len(set(names)) < len(names):
                raise AlterationError(f"column names must be unique to be compared: {names!r:.300}")
        pairs = self._pairs(prefix, olds, news)
        left = [name for name in news if name not in set(pairs.values())]
        gone = [name for name in olds if name not in pairs]
        if self._strict and (left or gone):
            raise one_sided(prefix, [f for f in before if f.name in set(gone)], [news[name] for name in left])
        for field in before:
            if field.name in pairs:
                self._field(prefix, field, news[pairs[field.name]])

    def _pairs(self, prefix: str, olds: list[str], news: Mapping[str, Any]) -> dict[str, str]:
        """Tell which column of before is which of after."""
        pairs: dict[str, str] = {}
        known = set(olds)
        for old in olds:
            path = prefix + old
            if path in self._rename:
                pairs[old] = self._rename[path]
            elif old in news:
                pairs[old] = old
            elif not prefix and self._moved.get(old) in news and self._moved[old] not in known:
                pairs[old] = self._moved[old]
        for old, new in pairs.items():
            if new not in news:
                raise AlterationError(
                    f"rename={{{prefix + old!r}: {new!r}}}: there is no {prefix + new!r} after the change"
                    f"{close_names(new, news)}"
                )
        targets = list(pairs.values())
        if len(set(targets)) < len(targets):
            twice = sorted({prefix + name for name in targets if targets.count(name) > 1})
            raise AlterationError(
                f"two columns would become {twice!r}; a rename that takes another column's name needs a rename for "
                "that column too"
            )
        return pairs

    def _field(self, prefix: str, old: pa.Field, new: pa.Field) -> None:
        path = prefix + old.name
        inner = _inside(old.type, new.type)
        changes_type = inner is None and not _same(old.type, new.type)
        if not changes_type and inner is None and not self._all_nulls and old.name == new.name and not self._nullable:
            return
        self._met.add(path)
        nullable = self._nullable.get(path)
        if nullable is None and self._all_nulls and old.nullable != new.nullable:
            nullable = new.nullable
        if nullable == old.nullable and self._all_nulls:
            nullable = None
        rename = new.name if new.name != old.name else None
        if rename is not None or changes_type or nullable is not None:
            self._note(path, Alteration(path, rename, new.type if changes_type else None, nullable), old, new)
        if inner is not None:
            step, olds, news = inner
            self.level(f"{path}.{step}", olds, news)

    def _note(self, path: str, alteration: Alteration, old: pa.Field, new: pa.Field) -> None:
        if "." in old.name:
            raise AlterationError(
                f"column {path!r} changes, but its name holds a dot, so that no path leads to it; "
                "create the table anew under names without dots"
            )
        self.alterations.append(alteration)
        self.changes.append(Change(old.type, new.type, old.nullable))

    def check_all_used(self, names: list[str]) -> None:
        """Refuse paths in ``rename`` and ``nullable`` that lead nowhere."""
        for option, paths in (("rename", self._rename), ("nullable", self._nullable)):
            for path in paths:
                if path not in self._met and not (path in names and option == "rename"):
                    raise unknown_path(option, path, self._met | set(names))


def _same(old: pa.DataType, new: pa.DataType) -> bool:
    import pyarrow as pa

    if pa.types.is_dictionary(old) and pa.types.is_dictionary(new):
        return bool(old.value_type == new.value_type)
    return bool(old.equals(new))


def _inside(old: pa.DataType, new: pa.DataType) -> tuple[str, list[pa.Field], list[pa.Field]] | None:
    """Give the fields to compare one by one, and the step to them, where both types are structs or lists of them."""
    import pyarrow as pa

    if not pa.types.is_nested(old):
        return None
    if pa.types.is_struct(old) and pa.types.is_struct(new):
        return "", list(old), list(new)
    lists = (pa.types.is_list, pa.types.is_large_list)
    if any(is_list(old) and is_list(new) for is_list in lists):
        one, other = old.value_field, new.value_field
        if pa.types.is_struct(one.type) and pa.types.is_struct(other.type):
            return f"{one.name}.", list(one.type), list(other.type)
    return None
