"""Two schemas → a list of `Alteration`, an `AlterationPlan`, and the JSON that is sent."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from rt_frames._display import Listing, as_html, as_text
from rt_frames._schema.casts import refused_together
from rt_frames._schema.compare import Comparison
from rt_frames._schema.data_type import to_data_type
from rt_frames._schema.dtype import to_arrow_type
from rt_frames._text import count

if TYPE_CHECKING:
    import pyarrow as pa

    from rt_frames._schema.compare import Change


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
        if self.rename == self.path.rpartition(".")[2]:
            raise ValueError(f"rename: {self.rename!r} is the name already; leave the rename out")
        if self.nullable not in (None, True, False) or (
            isinstance(self.nullable, int) and type(self.nullable) is not bool
        ):
            raise ValueError(f"nullable: expected True or False for {self.path!r}, got {self.nullable!r:.100}")
        if self.data_type is not None:
            arrow = to_arrow_type(self.data_type, self.path)
            to_data_type(arrow, self.path)
            object.__setattr__(self, "data_type", arrow)

    def __hash__(self) -> int:
        return hash((self.path, self.rename, self.nullable))  # equal types may differ in their hashes

    def to_json(self) -> dict[str, Any]:
        """Give the service's form.

        Returns
        -------
        dict
            ``path``, and of ``rename``, ``data_type`` and ``nullable`` only what is set, as the service's
            documentation of ``alter_columns`` names them.

        Examples
        --------
        >>> import rt_frames as rt
        >>> rt.Alteration("outer.inner", nullable=False).to_json()
        {'path': 'outer.inner', 'nullable': False}
        """
        said: dict[str, Any] = {"path": self.path}
        if self.rename is not None:
            said["rename"] = self.rename
        if self.data_type is not None:
            said["data_type"] = to_data_type(self.data_type, self.path)
        if self.nullable is not None:
            said["nullable"] = self.nullable
        return said


def _of(change: Change) -> Alteration:
    """Make an alteration of a difference; unless it brings a new name, there is nothing left to check."""
    if change.rename is not None:
        return Alteration(change.path, change.rename, change.data_type, change.nullable)
    made = object.__new__(Alteration)
    made.__dict__.update(path=change.path, rename=None, data_type=change.data_type, nullable=change.nullable)
    return made


def _check_new_name(path: str, name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise ValueError(f"rename: expected a new name for {path!r}, got {name!r:.100}")
    if "." in name or any(ord(char) < 32 or 127 <= ord(char) < 160 or 0xD800 <= ord(char) < 0xE000 for char in name):
        raise ValueError(f"rename: the new name of {path!r} cannot hold dots or control characters")


class AlterationPlan(Sequence[Alteration]):
    """What has to change, in the order in which it is sent; false when nothing has to.

    Parameters
    ----------
    alterations : iterable of Alteration
        The changes.
    changes : iterable of Change, optional
        What is known of each: the column's type before, and what the change does to its values.

    Examples
    --------
    >>> import polars as pl
    >>> import rt_frames as rt
    >>> before = pl.DataFrame({"qty": [1]})
    >>> plan = rt.plan_alterations(before, before.rename({"qty": "quantity"}))
    >>> bool(plan), plan.to_json()
    (True, {'alterations': [{'path': 'qty', 'rename': 'quantity'}]})
    """

    def __init__(self, alterations: Iterable[Alteration] = (), changes: Iterable[Change] = ()) -> None:
        self._alterations = tuple(alterations)
        self._changes = tuple(changes)

    @overload
    def __getitem__(self, at: int) -> Alteration: ...
    @overload
    def __getitem__(self, at: slice) -> AlterationPlan: ...
    def __getitem__(self, at: int | slice) -> Alteration | AlterationPlan:
        if isinstance(at, slice):
            return AlterationPlan(self._alterations[at], self._changes[at])
        return self._alterations[at]

    def __len__(self) -> int:
        return len(self._alterations)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AlterationPlan) and self._alterations == other._alterations

    def __hash__(self) -> int:
        return hash(self._alterations)

    def to_json(self) -> dict[str, Any]:
        """Give the body of the request.

        Returns
        -------
        dict
            ``{"alterations": [...]}``, each as `Alteration.to_json` gives it.

        Examples
        --------
        >>> import rt_frames as rt
        >>> rt.AlterationPlan([rt.Alteration("n", rename="count")]).to_json()
        {'alterations': [{'path': 'n', 'rename': 'count'}]}
        """
        return {"alterations": [alteration.to_json() for alteration in self._alterations]}

    def requests(self) -> list[AlterationPlan]:
        """Split the plan where the embedded service's engine does not take it in one request.

        Returns
        -------
        list of AlterationPlan
            One; or two, casts first, so that the paths of the second are still those of ``before``; or none.

        Examples
        --------
        >>> import rt_frames as rt
        >>> plan = rt.AlterationPlan([rt.Alteration("n", data_type="int32"), rt.Alteration("s", nullable=False)])
        >>> [[one.path for one in part] for part in plan.requests()]
        [['n'], ['s']]
        """
        if refused_together(self) is None:
            return [self] if self else []
        casts = [i for i, a in enumerate(self) if a.data_type is not None]
        others = [i for i, a in enumerate(self) if a.rename is not None or a.nullable is not None]
        return [self._part(casts, rename=None, nullable=None), self._part(others, data_type=None)]

    def _part(self, which: list[int], **without: Any) -> AlterationPlan:
        alterations = (dataclasses.replace(self._alterations[i], **without) for i in which)
        return AlterationPlan(alterations, [self._changes[i]._replace(**without) for i in which if self._changes])

    def __repr__(self) -> str:
        return as_text(self._listing()) if self else "AlterationPlan: nothing to alter"

    def _repr_html_(self) -> str:
        return as_html(self._listing()) if self else f"<p><b>{self!r}</b></p>"

    def _listing(self) -> Listing:
        known = self._changes or [None] * len(self)
        rows = [_row(alteration, change) for alteration, change in zip(self, known, strict=True)]
        head: tuple[str, ...] = ("path", "before", "after", "what")
        if not self._changes:
            head, *rows = (line[:1] + line[2:] for line in (head, *rows))
        return Listing(f"AlterationPlan: {count(len(self), 'alteration')}", head, rows, _notes(self))


def _row(alteration: Alteration, change: Change | None) -> tuple[str, ...]:
    nulls = {None: "", True: "nullable", False: "not null"}[alteration.nullable]
    after = [alteration.rename or "", "" if alteration.data_type is None else str(alteration.data_type), nulls]
    if change is None:
        words = ("renames", "casts", "changes nullability")
        what = ", ".join(word for word, part in zip(words, after, strict=True) if part)
    else:
        refused = f"; the embedded engine refuses: {change.refused}" if change.refused else ""
        what = ", ".join(change.kinds) + refused
    return alteration.path, str(change.before) if change else "", " ".join(filter(None, after)), what


def _notes(plan: AlterationPlan) -> list[str]:
    reason = refused_together(plan)
    if reason is None:
        return []
    first, then = (", ".join(one.path for one in part[:10]) for part in plan.requests())
    return [f"The embedded engine refuses: {reason}. Send two, as plan.requests() gives them: {first}; then {then}."]


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
    _check_asked("rename", rename, str)
    _check_asked("nullable", nullable, bool)
    comparison = Comparison(rename or {}, nullable or {}, strict=strict, compare_nullability=compare_nullability)
    changes = comparison.run(before, after, moved or {})
    return AlterationPlan(map(_of, changes), changes)


def _check_asked(option: str, asked: Any, kind: type) -> None:
    if asked is None:
        return
    if not isinstance(asked, Mapping):
        raise TypeError(f"{option}: expected a dict by path, got {type(asked).__name__}")
    for path, value in asked.items():
        if not isinstance(path, str) or not isinstance(value, kind):
            raise TypeError(f"{option}: expected {{path: {kind.__name__}}}, got {{{path!r:.100}: {value!r:.100}}}")
