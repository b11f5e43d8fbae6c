"""All columns of a frame that cannot be sent, in one error."""

from __future__ import annotations

from collections.abc import Sequence

from rt_frames._text import MAX_LISTED, list_names
from rt_frames.errors import UnsupportedTypeError


class Refusals(dict[str, UnsupportedTypeError]):
    """Columns that cannot be sent, each with its first error.

    ``levels`` are the columns that are levels of an index.
    """

    def __init__(self) -> None:
        super().__init__()
        self.levels: set[str] = set()

    def check(self, order: Sequence[str], action: str = "sent") -> None:
        """Raise one error for all of them, in the order of the frame's columns."""
        columns = tuple(name for name in order if name in self)
        if not columns:
            return
        if len(columns) == 1 and columns[0] not in self.levels:
            self[columns[0]].add(columns=columns)
            raise self[columns[0]]
        lines = [self._message(name) for name in columns[:MAX_LISTED]]
        if len(columns) > 1:
            lines.insert(0, f"{len(columns)} columns cannot be {action}:")
        more = columns[MAX_LISTED:]
        if more:
            lines.append(f"and {len(more)} more: {list_names(more)}")
        raise UnsupportedTypeError("\n".join(lines), columns=columns)

    def _message(self, column: str) -> str:
        text = str(self[column])
        # advice for columns does not apply
        if column in self.levels:
            return f"{text}; it is an index level: call df.reset_index() first"
        return text
