"""How the frames of one call are opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rt_frames._values.plan import PlanOptions

if TYPE_CHECKING:
    from rt_frames._frames.where import Checked


@dataclass(frozen=True)
class OpenOptions(PlanOptions):
    """How the frames of one call are opened, and their columns are sent.

    Rows have no null in their ``keys``, and no two rows have the same keys. All rows
    match ``where``.
    """

    keep_index: bool | None = None
    clean: bool = False
    where: Checked | None = None
