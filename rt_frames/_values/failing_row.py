"""The first row of a conversion that fails."""

from __future__ import annotations

from collections.abc import Callable

from rt_frames._schema.portable import CONVERSION_ERRORS


def first_failing_row(
    length: int, convert: Callable[[int, int], object], error: Exception
) -> tuple[int | None, Exception]:
    """Bisect for the first row that fails, and its error.

    The row is None if no single row is to blame.
    """
    start = 0
    stop = length
    # the first try has no rows: if it fails, the type is to blame
    middle = 0
    while start < stop:
        try:
            convert(start, middle)
        except CONVERSION_ERRORS as reason:
            if middle == start:
                return None, reason
            if middle == start + 1:
                return start, reason
            stop = middle
            error = reason
        else:
            start = middle
        middle = (start + stop + 1) // 2
    return None, error
