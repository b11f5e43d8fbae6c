"""Changes of columns as values: an `Alteration`, an `AlterationPlan`, and the JSON that is sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from rt_frames._data_types import data_type_of
from rt_frames._dtypes import arrow_type_of

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
