"""Print what each ending of each request means; ``--check`` compares with the file.

``python -m tests.meanings`` writes ``meanings.txt``: for every ending of a request, and
every operation, the error, whether the service may have acted, whether the request is
repeated, and the end of the message. Operations and endings of the same meaning share
a row. It calls private modules: the rows are more than a server can answer in a minute.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

from rt_frames._protocol import operations
from rt_frames._protocol.calls import Failure, Purpose
from rt_frames._protocol.meanings import Ending, explain, explain_unreadable
from rt_frames._protocol.responses import Response

FILE = Path(__file__).with_name("meanings.txt")
READS = ["list", "describe", "count_rows", "query", "indices", "history"]
ROWS = ["create", "replace", "append", "upsert", "replace_where"]
CHANGES = [
    "alter",
    "add_columns",
    "drop_columns",
    "delete",
    "restore",
    "compact",
    "drop",
]
PARTS = [
    ("create", "empty"),
    ("create", "begin"),
    ("create", "part"),
    ("replace", "part"),
    ("append", "part"),
    ("alter", "part"),
    ("create", "commit"),
    ("replace", "commit"),
    ("append", "commit"),
    ("alter", "commit"),
]
OPERATIONS = {
    operation.name: operation
    for operation in vars(operations).values()
    if isinstance(operation, operations.Operation)
}
REQUESTS = [
    *[(operation, "") for operation in READS + ROWS + CHANGES],
    *PARTS,
]
# statuses that some code or some document of HTTP gives a meaning of its own
STATUSES = [
    *(301, 304, 308, 400, 401, 402, 403, 404, 405, 406, 408, 409, 410, 411, 412, 413),
    *(415, 418, 421, 422, 423, 425, 426, 428, 429, 431, 451, 499),
    *(500, 501, 502, 503, 504, 505, 507, 511, 520, 524, 599, 600, 999),
]
BODIES: dict[str, tuple[int, Any]] = {
    "400 already exists": (400, {"error": "Table 't' already exists"}),
    "400 compressed": (400, {"error": "MESSAGE"}),
    "415 compressed": (415, {"error": "MESSAGE"}),
    "404 conversions": (404, {"error": "no table 'conversions'"}),
    "404 code 4": (404, {"error": "no table", "code": 4}),
    "404 code 12": (404, {"error": "no column 'a'", "code": 12}),
    "409 code 5": (409, {"error": "exists", "code": 5}),
    "409 code 14": (409, {"error": "concurrent commit", "code": 14}),
    "409 code 19": (409, {"error": "not possible in this state", "code": 19}),
    "429 Retry-After": (429, {"error": "slow down"}),
    "413 of a folder": (413, {"error": "too large"}),
    "500 of a folder": (500, {"error": "MESSAGE"}),
    "507 of a folder": (507, {"error": "no room"}),
    "200 error": (200, {"error": "it failed"}),
    "202": (202, {}),
    "103 at the end": (103, b""),
}
HOW = [
    *(
        "unsent",
        "no TLS",
        "proxy failed",
        "proxy refused",
        "proxy login",
        "certificate",
    ),
    *("partly sent", "all sent", "early"),
]


class Meaning(NamedTuple):
    """What an ending of a request means."""

    error: str
    acted: str
    repeat: str
    text: str

    def __str__(self) -> str:
        return (
            f"{self.error}, acted: {self.acted}, repeat: {self.repeat}\n    {self.text}"
        )


def endings() -> list[str]:
    """Return the names of all endings."""
    return [*HOW, *map(str, STATUSES), *BODIES]


def failure_of(operation: str, step: str, ending: str) -> Failure:
    """Return what the package makes of an ending."""
    asked = OPERATIONS[operation]
    table = None if operation == "list" else "t"
    purpose = Purpose(
        asked,
        table,
        stage=step,  # type: ignore[arg-type]
        is_compressed=lambda: "compressed" in ending,
    )
    sent = 50 if ending in ("partly sent", "early") else 100
    how = ending if ending in HOW else "answered"
    response = None
    if how in ("early", "answered"):
        response = _response("200 error" if how == "early" else ending)
    after = 7.0 if ending == "429 Retry-After" else None
    end = Ending(
        how,  # type: ignore[arg-type]
        "REASON",
        sent,
        100,
        response,
        after,
        is_certain="folder" in ending,
        has_size=False,
    )
    failure = explain(purpose, end)
    if failure is not None:
        return failure
    return explain_unreadable(purpose, Response(200, {}, b"BODY"), "PROBLEM")


def meaning(operation: str, step: str, ending: str) -> Meaning:
    """Return a row of the file."""
    failure = failure_of(operation, step, ending)
    table = None if operation == "list" else "t"
    action = Purpose(OPERATIONS[operation], table).action
    # the state depends on the kind of request alone, once it is known who acted
    sentence = [_generalize(failure.text, action), failure.cure, failure.hint]
    return Meaning(
        failure.error.__name__,
        failure.acted,
        failure.repeat,
        "; ".join(filter(None, sentence)),
    )


def _response(ending: str) -> Response:
    status, content = BODIES.get(ending, (0, {"error": "MESSAGE"}))
    if ending.isdigit() and ending not in BODIES:
        status = int(ending)
    if ending == "early 200":
        status = 200
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return Response(status, {}, body)


def _generalize(text: str, action: str) -> str:
    """Leave out what every row repeats: the operation and the status."""
    text = text.replace(f"could not {action}: ", "could not …: ")
    for status in STATUSES:
        text = text.replace(f"{status}, MESSAGE", "STATUS, MESSAGE")
        text = text.replace(f"{status}, redirected", "STATUS, redirected")
    return text


def transcript() -> str:
    """Return all distinct meanings, as text."""
    by_rows: dict[str, list[str]] = {}
    for ending in endings():
        names: dict[Meaning, list[str]] = {}
        for request in REQUESTS:
            found = meaning(*request, ending)
            names.setdefault(found, []).append(_name(*request))
        rows = [f"  {_shorten(among)} → {found}" for found, among in names.items()]
        by_rows.setdefault("\n".join(rows), []).append(ending)
    sections = []
    for rows, same in by_rows.items():
        sections.append(f"# {' | '.join(same)}\n{rows}\n")
    return "\n".join(sections)


def _name(operation: str, step: str) -> str:
    return "/".join(filter(None, [operation, step]))


def _shorten(names: list[str]) -> str:
    """Write groups of operations as one word."""
    groups = {
        "EVERY REQUEST": [_name(*request) for request in REQUESTS],
        "READS": READS,
        "ROWS": ROWS,
        "CHANGES": CHANGES,
        "PARTS": [f"{name}/part" for name, step in PARTS if step == "part"],
        "COMMITS": [f"{name}/commit" for name, step in PARTS if step == "commit"],
    }
    left = [*names]
    words = []
    for word, group in groups.items():
        if set(group) <= set(left):
            words.append(word)
            left = [name for name in left if name not in group]
    return " ".join(words + left)


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(FILE.read_text() != transcript())
    FILE.write_text(transcript())
