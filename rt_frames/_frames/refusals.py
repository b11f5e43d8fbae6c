"""All columns of a frame that cannot be sent, told at once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from rt_frames._text import MAX_LISTED, list_names
from rt_frames.errors import UnsupportedTypeError


class Refusals(dict[str, UnsupportedTypeError]):
    """Columns that cannot be sent, each with the first error that says why."""

    @contextlib.contextmanager
    def of(self, column: str) -> Iterator[None]:
        """Note the error of a column, and go on."""
        try:
            yield
        except UnsupportedTypeError as error:
            self.setdefault(column, error)

    def append_advice(self, column: str, advice: str) -> None:
        """Add to what is said of a column, if it is refused."""
        if error := self.get(column):
            error.args = (f"{error}; {advice}",)

    def check(self, order: Sequence[str]) -> None:
        """Raise one error for all of them, in the order of the frame's columns."""
        columns = tuple(name for name in order if name in self) if self else ()
        errors = [self[name] for name in columns]
        if len(errors) == 1:
            errors[0].add(columns=columns)
            raise errors[0]
        if errors:
            lines = [f"{len(errors)} columns cannot be sent:", *map(str, errors[:MAX_LISTED])]
            if more := columns[MAX_LISTED:]:
                lines.append(f"and {len(more)} more: {list_names(more)}")
            raise UnsupportedTypeError("\n".join(lines), columns=columns)
