"""User-facing messages are those in `tests/messages.txt`.

``python -m tests.messages`` regenerates it.
"""

from __future__ import annotations

import pandas as pd
import pytest

from tests import messages


@pytest.mark.skipif(
    pd.__version__ < "3",
    reason="messages quote those of the libraries, as of the newest ones",
)
def test_people_are_told_what_was_reviewed():
    text = messages.FILE.read_text()
    assert messages.transcript(text).splitlines() == text.splitlines()
