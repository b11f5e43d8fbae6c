"""`Alteration`, a change of one column; `AlterationPlan`, all changes of a table."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

import pyarrow as pa

from rt_frames._display import Listing, as_html, as_text
from rt_frames._names import duplicates, has_control_characters, join_path
from rt_frames._schema.any_dtype import to_arrow_type
from rt_frames._schema.casts import (
    lossy_reason,
    refusal_reason,
    split_reason,
)
from rt_frames._schema.data_type import to_data_type, type_text
from rt_frames._text import (
    MAX_LISTED,
    count,
    list_names,
    list_some,
    show_value,
)
from rt_frames.errors import AlterationError

_JSON_KEYS = {"path", "rename", "data_type", "nullable"}


@dataclass(frozen=True)
class Alteration:
    """One change of one column.

    Parameters
    ----------
    path : str
        The column, or ``"outer.inner"`` for a field of a struct.
    rename : str, optional
        Its new name, without the path.
    data_type : dtype, optional
        Its new type: any dtype that `data_type` takes.
    nullable : bool, optional
        Whether it may hold nulls.
    before : pyarrow.DataType, optional
        Its type before the change, if known. Shown, but neither compared nor sent.
    lists : str, default ""
        The list kind of the path, such as ``"large_list"``. Empty if the path leads
        through no list. Neither compared nor sent.

    Raises
    ------
    ValueError
        If the alteration changes nothing, or a name is not valid.
    UnsupportedTypeError
        If the service has no name for the type.

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
    before: Any = field(default=None, compare=False, repr=False, kw_only=True)
    lists: str = field(default="", compare=False, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        path = self.path
        nullable = self.nullable
        if not isinstance(path, str) or not path:
            raise ValueError(
                f"path: expected the name of a column, got {show_value(path)}"
            )
        if self.rename is None and self.data_type is None and nullable is None:
            raise ValueError(
                f"the alteration of {path!r} changes nothing; pass rename, data_type or nullable"
            )
        if self.rename is not None:
            _check_new_name(self.rename, path)
        if nullable is not None and not isinstance(nullable, bool):
            raise ValueError(
                f"nullable: expected True or False for {path!r}, got {show_value(nullable)}"
            )
        if self.data_type is not None:
            arrow = to_arrow_type(self.data_type, path)
            to_data_type(arrow, path)
            object.__setattr__(self, "data_type", arrow)

    def __hash__(self) -> int:
        # equal types may hash differently
        return hash((self.path, self.rename, self.nullable))

    @property
    def refused(self) -> str | None:
        """Why the engine of folders and of LanceDB's servers refuses this change.

        None if it makes the change, or if ``before`` is not known. Another service is
        sent the change, and may make it.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import rt_frames as rt
        >>> before = pa.schema({"n": pa.int64()})
        >>> after = pa.schema({"n": pa.string()})
        >>> rt.plan_alterations(before, after)[0].refused
        'int64 can be cast to integers only'
        """
        if "`" in self.path:
            return "cannot address a name with a backtick"
        if self.nullable is False and self.lists:
            return "cannot forbid nulls inside a list"
        if self.before is None or self.data_type is None:
            return None
        return refusal_reason(self.before, self.data_type, self.lists)

    @property
    def loss(self) -> str | None:
        """How the cast may change stored values, or None.

        It is None as well if ``before`` is not known.

        Examples
        --------
        >>> import polars as pl
        >>> import rt_frames as rt
        >>> before = pl.Schema({"price": pl.Float64})
        >>> after = pl.Schema({"price": pl.Float32})
        >>> rt.plan_alterations(before, after)[0].loss
        'double to float keeps 7 digits, and makes the largest numbers infinite'
        """
        if self.before is None or self.data_type is None:
            return None
        return lossy_reason(self.before, self.data_type)

    def __str__(self) -> str:
        changes = []
        if self.rename is not None:
            changes.append(f"renamed to {self.rename}")
        if self.data_type is not None:
            before = "" if self.before is None else f"{type_text(self.before)} "
            changes.append(f"{before}to {type_text(self.data_type)}")
        if self.nullable is not None:
            changes.append(_NULLS[self.nullable])
        return f"{self.path}: {', '.join(changes)}"

    def to_json(self) -> dict[str, Any]:
        """Return the alteration as the service's JSON.

        Returns
        -------
        dict
            ``path``, and those of ``rename``, ``data_type`` and ``nullable`` that are
            set, as in the service's documentation of ``alter_columns``.

        Examples
        --------
        >>> import rt_frames as rt
        >>> rt.Alteration("outer.inner", nullable=False).to_json()
        {'path': 'outer.inner', 'nullable': False}
        """
        alteration: dict[str, Any] = {"path": self.path}
        if self.rename is not None:
            alteration["rename"] = self.rename
        if self.data_type is not None:
            alteration["data_type"] = to_data_type(self.data_type, self.path)
        if self.nullable is not None:
            alteration["nullable"] = self.nullable
        return alteration


def _check_new_name(name: Any, path: str) -> None:
    if not isinstance(name, str) or not name:
        raise ValueError(
            f"rename: expected a new name for {path!r}, got {show_value(name)}"
        )
    if "." in name or has_control_characters(name):
        raise ValueError(
            f"rename: the new name of {path!r} must not contain dots or control characters, got {show_value(name)}"
        )
    if name == path.rpartition(".")[2]:
        raise ValueError(
            f"rename: column {path!r} is named {name!r} already; leave it out"
        )


@dataclass(frozen=True, init=False, repr=False)
class AlterationPlan(Sequence[Alteration]):
    """What to change in one table.

    The length, the items and the order of a plan are those of ``changes``. It is true
    if it changes, adds or drops columns.

    Parameters
    ----------
    changes : iterable of Alteration
        Changes of columns.
    added : pyarrow.Schema, optional
        Columns to add, all null at first.
    dropped : sequence of str
        Columns to drop.
    left_alone : sequence of str
        Columns and fields that only ``before`` has, and that stay as they are.

    Attributes
    ----------
    changes : tuple of Alteration
        Changes of columns, in the order in which they are sent: the order in which they
        were given, but a name is freed before another column takes it, and fields are
        changed before the struct around them is renamed.
    added : pyarrow.Schema
        Columns to add, all null at first.
    dropped : tuple of str
        Columns to drop.
    left_alone : tuple of str
        Columns and fields that only ``before`` has, and that stay as they are.

    Examples
    --------
    >>> import polars as pl
    >>> import rt_frames as rt
    >>> before = pl.DataFrame({"qty": [1]})
    >>> names = {"qty": "quantity"}
    >>> plan = rt.plan_alterations(before, before.rename(names), rename=names)
    >>> bool(plan), plan.to_json()
    (True, {'alterations': [{'path': 'qty', 'rename': 'quantity'}]})
    """

    changes: tuple[Alteration, ...]
    added: pa.Schema
    dropped: tuple[str, ...]
    left_alone: tuple[str, ...]

    def __init__(
        self,
        changes: Iterable[Alteration] = (),
        *,
        added: pa.Schema | None = None,
        dropped: Iterable[str] = (),
        left_alone: Iterable[str] = (),
    ) -> None:
        # as a frozen dataclass sets its fields
        object.__setattr__(self, "changes", tuple(_one_by_one(list(changes))))
        object.__setattr__(self, "added", pa.schema([]) if added is None else added)
        object.__setattr__(self, "dropped", tuple(dropped))
        object.__setattr__(self, "left_alone", tuple(left_alone))

    def __bool__(self) -> bool:
        return bool(self.changes or len(self.added) or self.dropped)

    def __len__(self) -> int:
        return len(self.changes)

    def __hash__(self) -> int:
        # equal types, and so equal schemas, may hash differently
        return hash((self.changes, self.dropped))

    @overload
    def __getitem__(self, index: int) -> Alteration: ...
    @overload
    def __getitem__(self, index: slice) -> list[Alteration]: ...
    def __getitem__(self, index: int | slice) -> Alteration | list[Alteration]:
        if isinstance(index, slice):
            return list(self.changes[index])
        return self.changes[index]

    def to_json(self) -> dict[str, Any]:
        """Return the body of the plan's only request.

        Returns
        -------
        dict
            ``{"alterations": [...]}``, each as `Alteration.to_json` returns it, or
            ``{"columns": [...]}`` if the plan drops columns.

        Raises
        ------
        ValueError
            If the plan needs several requests, or adds columns, whose request is an
            Arrow schema.

        Examples
        --------
        >>> import rt_frames as rt
        >>> rt.AlterationPlan([rt.Alteration("n", rename="count")]).to_json()
        {'alterations': [{'path': 'n', 'rename': 'count'}]}
        """
        _check_one_kind(self)
        if len(self.added):
            raise ValueError(
                "this plan adds columns, which are sent as an Arrow schema, not as JSON; use plan.added"
            )
        if self.dropped:
            return {"columns": list(self.dropped)}
        return {"alterations": [alteration.to_json() for alteration in self]}

    def requests(self) -> list[AlterationPlan]:
        """Split the plan into plans of one request each.

        Returns
        -------
        list of AlterationPlan
            Changes, added columns, dropped columns, in this order. If the engine of
            folders and of LanceDB's servers refuses the changes in one request, they
            become two: casts, then the rest, whose paths are still those of ``before``.

        Examples
        --------
        >>> import rt_frames as rt
        >>> cast = rt.Alteration("n", data_type="int32")
        >>> plan = rt.AlterationPlan([cast, rt.Alteration("s", nullable=False)])
        >>> casts, others = plan.requests()
        >>> others.to_json()
        {'alterations': [{'path': 's', 'nullable': False}]}
        """
        if self._split_reason is None:
            return by_kind(self)
        casts = []
        others = []
        for alteration in self:
            if alteration.data_type is not None:
                casts.append(replace(alteration, rename=None, nullable=None))
            if alteration.rename is not None or alteration.nullable is not None:
                others.append(replace(alteration, data_type=None))
        _, *added_and_dropped = by_kind(self)
        return [AlterationPlan(casts), AlterationPlan(others), *added_and_dropped]

    @property
    def _split_reason(self) -> str | None:
        changes = []
        for alteration in self:
            new = alteration.rename, alteration.data_type, alteration.nullable
            changes.append((alteration.path, *new))
        return split_reason(changes)

    def __repr__(self) -> str:
        if self:
            return as_text(self._listing())
        return "; ".join(["AlterationPlan: nothing to alter", *self._left_alone_note()])

    def _repr_html_(self) -> str:
        if self:
            return as_html(self._listing())
        return f"<p><b>{html.escape(repr(self))}</b></p>"

    def _left_alone_note(self) -> list[str]:
        if not self.left_alone:
            return []
        return [f"left alone, as only before has them: {list_names(self.left_alone)}"]

    def _listing(self) -> Listing:
        rows = list(map(_row, self))
        rows += [
            (column.name, "", "", type_text(column.type), "add")
            for column in self.added
        ]
        rows += [(name, "", "", "", "drop") for name in self.dropped]
        head = ("path", "new name", "before", "after", "changes")
        marks = self._marks()
        notes = [note for mark, note in _NOTES.items() if mark in marks.values()]
        notes += self._split_note()
        notes += self._left_alone_note()
        return Listing(self._title(), head, rows, notes, marks)

    def _title(self) -> str:
        counts = {
            "alteration": len(self),
            "added column": len(self.added),
            "dropped column": len(self.dropped),
        }
        parts = [count(number, noun) for noun, number in counts.items() if number]
        return f"AlterationPlan: {', '.join(parts)}"

    def _marks(self) -> dict[int, str]:
        """Return the marks of changes that a reader should not miss, by row."""
        marks = {}
        for number, alteration in enumerate(self):
            if alteration.refused:
                marks[number] = "refused"
            elif alteration.loss:
                marks[number] = "lossy"
        first_dropped = len(self) + len(self.added)
        for number in range(len(self.dropped)):
            marks[first_dropped + number] = "drop"
        return marks

    def _split_note(self) -> list[str]:
        reason = self._split_reason
        if reason is None:
            return []
        casts, others = map(_list_paths, AlterationPlan(self.changes).requests())
        advice = f"alter_table and plan.requests() make two: {casts}; then {others}."
        return [f"On folders and LanceDB's servers, {reason}. {advice}"]


def _one_by_one(changes: list[Alteration]) -> Iterator[Alteration]:
    """Order changes for a service that makes one after the other."""
    first = _prerequisites(changes)
    done = set[int]()
    for change in changes:
        # not recursive: a chain may be long
        waiting = [change]
        while waiting:
            last = waiting.pop()
            if id(last) in done:
                continue
            needs = [each for each in first.get(last.path, ()) if id(each) not in done]
            if needs:
                waiting += [last, *reversed(needs)]
                continue
            done.add(id(last))
            yield last


def _prerequisites(changes: list[Alteration]) -> dict[str, list[Alteration]]:
    """Return what each rename waits for, by path.

    These are changes inside of its column, whose paths it would change, and the rename
    of the column that has its new name, unless the two exchange names.
    """
    renames = renamed_paths(changes)
    first: dict[str, list[Alteration]] = {path: [] for path in renames}
    exchanged = {path for cycle in find_cycles(renames) for path in cycle}
    takers = {_new_path(path, renames): path for path in renames}
    for change in changes:
        path = change.path
        if path in renames and path in takers and path not in exchanged:
            first[takers[path]].append(change)
        while path := path.rpartition(".")[0]:
            if path in renames:
                first[path].append(change)
    return first


def renamed_paths(changes: Iterable[Alteration]) -> dict[str, str]:
    """Return new names by path."""
    return {each.path: each.rename for each in changes if each.rename is not None}


def _new_path(path: str, renames: Mapping[str, str]) -> str:
    return join_path(path.rpartition(".")[0], renames[path])


def find_cycles(renames: Mapping[str, str]) -> Iterator[list[str]]:
    """Yield the paths of columns that exchange their names."""
    seen = set[str]()
    for path in renames:
        chain: list[str] = []
        while path in renames and path not in seen:
            seen.add(path)
            chain.append(path)
            path = _new_path(path, renames)  # noqa: PLW2901  # follow the chain
        if path in chain:
            yield chain[chain.index(path) :]


# notes below a plan, by the mark of a change
_NOTES = {
    "lossy": "lossy: stored values may change; pass lossy=True to alter_table.",
    "refused": (
        "refused: the engine of folders and of LanceDB's servers cannot make the change; there, "
        "alter_table says whether rewrite=True makes it."
    ),
    "drop": "drop: the values of these columns are lost.",
}
_NULLS = {True: "nullable", False: "not null"}


def _list_paths(plan: AlterationPlan) -> str:
    return ", ".join(alteration.path for alteration in plan[:MAX_LISTED])


def _row(alteration: Alteration) -> tuple[str, ...]:
    before = "" if alteration.before is None else type_text(alteration.before)
    after = []
    actions = []
    if alteration.rename is not None:
        actions.append("rename")
    if alteration.data_type is not None:
        actions.append("cast")
        after.append(type_text(alteration.data_type))
    if alteration.nullable is not None:
        actions.append("nullable")
        after.append(_NULLS[alteration.nullable])
    changes = ", ".join(actions)
    if alteration.refused:
        changes += f"; refused: {alteration.refused}"
    elif alteration.loss:
        changes += f"; lossy: {alteration.loss}"
    return alteration.path, alteration.rename or "", before, " ".join(after), changes


def check_values_kept(plan: AlterationPlan) -> None:
    """Raise AlterationError if casts may change stored values."""
    losses = []
    for alteration in plan:
        path = alteration.path
        if alteration.loss:
            losses.append(f"{path!r} ({alteration.loss})")
        elif alteration.data_type is not None and alteration.before is None:
            losses.append(f"{path!r} (its type before is unknown)")
    if losses:
        raise AlterationError(
            f"casts may change stored values of {list_some(losses)}; nothing was sent; "
            "pass lossy=True to cast anyway"
        )


def by_kind(plan: AlterationPlan) -> list[AlterationPlan]:
    """Split a plan into changes, added and dropped columns, without empty plans.

    Dropped columns come last, as no further request can undo the drop.
    """
    plans = [
        AlterationPlan(plan.changes),
        AlterationPlan(added=plan.added),
        AlterationPlan(dropped=plan.dropped),
    ]
    return [part for part in plans if part]


def describe_changes(plan: AlterationPlan) -> list[str]:
    """Return each change as a short text."""
    changes = list(map(str, plan))
    changes += [
        f"{column.name}: added, {type_text(column.type)}" for column in plan.added
    ]
    changes += [f"{name}: dropped" for name in plan.dropped]
    return changes


def _check_one_kind(plan: AlterationPlan) -> None:
    if len(by_kind(plan)) > 1:
        raise ValueError(
            "this plan needs several requests, as changes, added and dropped columns "
            "are one each; send each of plan.requests()"
        )


def as_plan(
    alterations: AlterationPlan | Alteration | Mapping[str, Any] | Iterable[Any],
) -> AlterationPlan:
    """Return alterations of any form as a plan.

    Only a plan or the JSON of a plan may be empty.
    """
    if isinstance(alterations, AlterationPlan):
        _check_one_kind(alterations)
        _check_paths(alterations)
        return alterations
    is_body = isinstance(alterations, Mapping) and set(alterations) == {"alterations"}
    if is_body:
        alterations = alterations["alterations"]  # type: ignore[call-overload,index]
    if isinstance(alterations, Alteration | Mapping):
        alterations = [alterations]
    if isinstance(alterations, str) or not isinstance(alterations, Iterable):
        raise TypeError(
            f"alterations: expected a plan, Alterations or dicts, got {type(alterations).__name__}"
        )
    plan = AlterationPlan(map(_to_alteration, alterations))
    if not plan and not is_body:
        raise ValueError("alterations: the list is empty; pass at least one alteration")
    _check_paths(plan)
    return plan


def _check_paths(plan: AlterationPlan) -> None:
    twice = duplicates(alteration.path for alteration in plan)
    if twice:
        raise ValueError(
            f"alterations: more than one for {list_names(twice)}; combine the changes of "
            "a column into one alteration"
        )


def _to_alteration(value: Any) -> Alteration:
    if isinstance(value, Alteration):
        return value
    if not isinstance(value, Mapping):
        raise TypeError(
            f"alterations: expected an Alteration or a dict, got {type(value).__name__}"
        )
    unknown = sorted(map(str, set(value) - _JSON_KEYS))
    fault = "" if "path" in value else "there is no 'path'"
    if unknown:
        fault = f"unknown {list_names(unknown)}"
    if fault:
        shown = show_value(dict(value), 200)
        raise ValueError(
            f"alterations: {fault} in {shown}; pass 'path' and any of 'rename', "
            "'data_type', 'nullable'"
        )
    return Alteration(**value)
