"""Two schemas → their differences → a list of `Alteration`, an `AlterationPlan`, and the JSON that is sent.

Columns are compared by name, in the order of ``before``; paths are always those of ``before``. Inside a struct,
and inside a list of structs, the path goes down; any other nested type changes as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from rt_frames._data_types import data_type_of
from rt_frames._dtypes import arrow_type_of
from rt_frames._mismatch import close_names, one_sided, unknown_path
from rt_frames.errors import AlterationError

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Alteration:
    """One change of one column.

    Parameters
    ----------
    path : str
        The column; inside a struct ``"outer.inner"``.
    rename : str, optional
        Its new name, without the path.
    data_type : dtype, optional
        Its new type: any dtype that `data_type` takes.
    nullable : bool, optional
        Whether it may hold nulls.

    Raises
    ------
    ValueError
        If nothing would change, or a name cannot be used.
    UnsupportedTypeError
        If the service has no word for the type.

    Examples
    --------
    >>> import rt_frames as rt
    >>> rt.Alteration("price", rename="amount", data_type="float32").to_json()
    {'path': 'price', 'rename': 'amount', 'data_type': {'type': 'float'}}
    """

    path: str
    rename: str | None = None
    data_type: Any = None
    nullable: bool | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.path, str) or not self.path:
            raise ValueError(f"path: expected the name of a column, got {self.path!r:.100}")
        if self.rename is None and self.data_type is None and self.nullable is None:
            raise ValueError(f"the alteration of {self.path!r} changes nothing; give rename, data_type or nullable")
        if self.rename is not None:
            _check_new_name(self.path, self.rename)
        if self.nullable not in (None, True, False) or (
            isinstance(self.nullable, int) and type(self.nullable) is not bool
        ):
            raise ValueError(f"nullable: expected True or False for {self.path!r}, got {self.nullable!r:.100}")
        if self.data_type is not None:
            arrow = arrow_type_of(self.data_type, self.path)
            data_type_of(arrow, self.path)
            object.__setattr__(self, "data_type", arrow)

    def to_json(self) -> dict[str, Any]:
        """Give the service's form: a dict with only what is set."""
        said: dict[str, Any] = {"path": self.path}
        if self.rename is not None:
            said["rename"] = self.rename
        if self.data_type is not None:
            said["data_type"] = data_type_of(self.data_type, self.path)
        if self.nullable is not None:
            said["nullable"] = self.nullable
        return said


def _check_new_name(path: str, name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise ValueError(f"rename: expected a new name for {path!r}, got {name!r:.100}")
    if "." in name or any(ord(char) < 32 or 127 <= ord(char) < 160 or 0xD800 <= ord(char) < 0xE000 for char in name):
        raise ValueError(f"rename: the new name of {path!r} cannot hold dots or control characters")


class Change(NamedTuple):
    """What a plan knows of one alteration: how the column is before, and how it will be."""

    before: pa.DataType
    after: pa.DataType
    was_nullable: bool


class AlterationPlan(Sequence[Alteration]):
    """What has to change, in the order in which it is sent; false when nothing has to.

    Parameters
    ----------
    alterations : iterable of Alteration
        The changes.
    changes : iterable of Change
        What is known of each one.

    Examples
    --------
    >>> import polars as pl
    >>> import rt_frames as rt
    >>> before = pl.DataFrame({"qty": [1]})
    >>> rt.plan_alterations(before, before.rename({"qty": "quantity"}))
    AlterationPlan: 1 alteration
    path  before  after     what
    qty   int64   quantity  renames
    """

    def __init__(self, alterations: Iterable[Alteration] = (), changes: Iterable[Change] = ()) -> None:
        self._alterations = tuple(alterations)
        self.changes = tuple(changes)

    @overload
    def __getitem__(self, at: int) -> Alteration: ...
    @overload
    def __getitem__(self, at: slice) -> AlterationPlan: ...
    def __getitem__(self, at: int | slice) -> Alteration | AlterationPlan:
        if isinstance(at, slice):
            return AlterationPlan(self._alterations[at], self.changes[at])
        return self._alterations[at]

    def __len__(self) -> int:
        return len(self._alterations)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AlterationPlan) and self._alterations == other._alterations

    def __hash__(self) -> int:
        return hash(self._alterations)

    def to_json(self) -> dict[str, Any]:
        """Give the body of the request: ``{"alterations": [{…only what is set…}]}``."""
        return {"alterations": [alteration.to_json() for alteration in self._alterations]}

    def refused_together(self) -> str | None:
        """Say why this family of services does not take all of it in one request; None where it does."""
        casts = {a.path for a in self if a.data_type is not None}
        if casts and any(a.nullable is False for a in self):
            return "nullable=False goes with no cast in one request"
        renamed = {a.path: (*a.path.split(".")[:-1], a.rename) for a in self if a.rename is not None}
        tangled = {path for path, new in renamed.items() if ".".join(map(str, new)) in renamed}
        tangled |= {path for path in renamed if any(path == ".".join(map(str, renamed[other])) for other in tangled)}
        return "a swap or chain of names goes with no cast of its columns in one request" if tangled & casts else None

    def requests(self) -> list[AlterationPlan]:
        """Split the plan where this family of services does not take it in one request.

        Casts go first, so that the paths of the second request are still those of ``before``.
        """
        if self.refused_together() is None:
            return [self] if self else []
        pairs = list(zip(self._alterations, self.changes, strict=True))
        casts = [(Alteration(a.path, data_type=a.data_type), c) for a, c in pairs if a.data_type is not None]
        rest = [
            (Alteration(a.path, rename=a.rename, nullable=a.nullable), c)
            for a, c in pairs
            if a.rename is not None or a.nullable is not None
        ]
        return [AlterationPlan(*zip(*part, strict=True)) for part in (casts, rest)]

    def __repr__(self) -> str:
        from rt_frames._display import plan_as_text

        return plan_as_text(self)

    def _repr_html_(self) -> str:
        from rt_frames._display import plan_as_html

        return plan_as_html(self)


def as_json(alterations: AlterationPlan | Alteration | Mapping[str, Any] | Iterable[Any]) -> dict[str, Any]:
    """Check what was asked for and give the request's body."""
    if isinstance(alterations, Alteration | Mapping):
        alterations = [alterations]
    if isinstance(alterations, str) or not isinstance(alterations, Iterable):
        raise TypeError(
            f"alterations: expected a plan or a list of Alteration or dict, got {type(alterations).__name__}"
        )
    checked = [one if isinstance(one, Alteration) else _from_dict(one) for one in alterations]
    if not checked:
        raise ValueError("alterations: the list is empty, there is nothing to send")
    paths = [one.path for one in checked]
    if len(set(paths)) < len(paths):
        twice = sorted({path for path in paths if paths.count(path) > 1})
        raise ValueError(
            f"alterations: {twice!r} occur more than once; put what changes in one column into one alteration"
        )
    return {"alterations": [one.to_json() for one in checked]}


def _from_dict(given: Any) -> Alteration:
    if not isinstance(given, Mapping):
        raise TypeError(f"alterations: expected an Alteration or a dict, got {type(given).__name__}")
    unknown = set(given) - {"path", "rename", "data_type", "nullable"}
    if unknown or "path" not in given:
        what = f"does not know {sorted(map(str, unknown))}" if unknown else "needs a path"
        raise ValueError(
            f"alterations: {dict(given)!r:.200}: an alteration {what}; it has path, rename, data_type, nullable"
        )
    return Alteration(**given)


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
