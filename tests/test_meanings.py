"""What an ending of a request means: the table, `meanings.txt` and README agree.

It imports the table: README's words are compared with its rows.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rt_frames import errors
from rt_frames._protocol.meanings import MEANINGS
from tests import meanings

README = Path(__file__).parents[1] / "README.md"
# classes that do not come from the ending of a request
FROM_ARGUMENTS = {
    errors.NotConnectedError,
    errors.UnsupportedTypeError,
    errors.AlterationError,
}


def readme_rows() -> list[tuple[list[type], str]]:
    """Return the classes of each row of README's table of errors, and what happened."""
    section = README.read_text().partition("## Errors")[2]
    table = section.partition("\n\n<details>")[0]
    rows = []
    for line in table.splitlines():
        if line.startswith(("| `", "| any other")):
            names, happened, _ = line.strip("| ").split(" | ")
            found = re.findall(r"`(\w+)`", names)
            rows.append(([getattr(errors, name) for name in found], happened))
    return rows


def acted_by_class() -> dict[type, set[str]]:
    """Return what the table says of each class."""
    found: dict[type, set[str]] = {}
    for row in MEANINGS:
        found.setdefault(row.error, set()).add(row.acted)
    return found


def test_the_meanings_are_those_that_were_reviewed():
    assert meanings.transcript() == meanings.FILE.read_text()


def test_readme_has_a_row_for_every_class():
    named = {kind for kinds, _ in readme_rows() for kind in kinds}
    assert named >= set(acted_by_class()) | FROM_ARGUMENTS


@pytest.mark.parametrize(("kinds", "happened"), readme_rows())
def test_readme_says_of_each_error_what_the_table_says(kinds, happened):
    changed_nothing = re.search(r"changed nothing|nothing was", happened) is not None
    for kind in set(kinds) - FROM_ARGUMENTS:
        if kind is errors.UploadInterrupted:
            continue
        assert changed_nothing == (acted_by_class()[kind] == {"no"}), kind


def test_every_row_is_the_meaning_of_something():
    """A row behind others that fit all that it fits would mean nothing."""
    used = set()
    for request in meanings.REQUESTS:
        for ending in meanings.endings():
            failure = meanings.failure_of(*request, ending)
            used.add((failure.error, failure.acted, failure.repeat, failure.cure))
    rows = {(row.error, row.acted, row.repeat, row.cure) for row in MEANINGS}
    assert rows - used == set()
