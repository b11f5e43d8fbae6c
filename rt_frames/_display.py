"""A plan as a table: plain text for terminals, HTML for notebooks."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from rt_frames import _casts

if TYPE_CHECKING:
    from rt_frames._alterations import Alteration, AlterationPlan, Change

_HEAD = ("path", "before", "after", "what")
_MOST = 60  # rows


def plan_as_text(plan: AlterationPlan) -> str:
    """Align the plan's rows under their headings."""
    if not plan:
        return "AlterationPlan: nothing to alter"
    rows = [_HEAD, *_rows(plan)]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    lines = ["  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[3]]) for row in rows]
    return "\n".join([_title(plan), *lines, *_notes(plan)])


def plan_as_html(plan: AlterationPlan) -> str:
    """Make a table that takes its colours from the page."""
    if not plan:
        return "<p><b>AlterationPlan</b>: nothing to alter</p>"
    head = "".join(f"<th style='text-align:left'>{cell}</th>" for cell in _HEAD)
    body = "".join(
        "<tr>" + "".join(f"<td style='text-align:left'>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in _rows(plan)
    )
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in _notes(plan))
    title = html.escape(_title(plan))
    return f"<div><b>{title}</b><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}</div>"


def _title(plan: AlterationPlan) -> str:
    return f"AlterationPlan: {len(plan)} alteration{'s' * (len(plan) != 1)}"


def _rows(plan: AlterationPlan) -> list[tuple[str, str, str, str]]:
    pairs = list(zip(plan, plan.changes, strict=True))
    return [(_shown(a.path), _type_before(a, c), _shown(_after(a, c)), _what(a, c)) for a, c in pairs[:_MOST]]


def _shown(text: str) -> str:
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def _type_before(alteration: Alteration, change: Change) -> str:
    return _shown(str(change.before)) + ("" if alteration.nullable is None or change.was_nullable else " not null")


def _after(alteration: Alteration, change: Change) -> str:
    parts = [alteration.rename or "", str(change.after) if alteration.data_type is not None else ""]
    parts.append({None: "", True: "nullable", False: "not null"}[alteration.nullable])
    return " ".join(filter(None, parts))


def _what(alteration: Alteration, change: Change) -> str:
    does = ["renames"] if alteration.rename is not None else []
    if alteration.data_type is not None:
        does.append(_casts.effect(change.before, change.after))
    if alteration.nullable is not None:
        does.append("changes nullability")
    refusal = _casts.refusal(change.before, change.after) if alteration.data_type is not None else None
    return ", ".join(does) + (f" (this family of services refuses it: {refusal})" if refusal else "")


def _notes(plan: AlterationPlan) -> list[str]:
    notes = [f"… and {len(plan) - _MOST} more"] if len(plan) > _MOST else []
    reason = plan.refused_together()
    if reason:
        first, second = (", ".join(repr(a.path) for a in part[:10]) for part in plan.requests())
        notes.append(
            f"{reason}; send two, as plan.requests() splits them: first the casts ({first}), then the rest ({second})"
        )
    return notes
