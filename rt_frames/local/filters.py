"""Check the filters of requests before Lance computes them.

Lance ends the process for filters that nest too deeply, and takes all memory for texts
that grow (pylance 14).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from rt_frames._protocol.conditions import MAX_BYTES, QUOTED, find_fault
from rt_frames._text import format_bytes
from rt_frames.local.http_error import HTTPError

# words and operators that may nest in each other; about 350 levels crash pylance 14
MAX_NESTED = 250
# AND and OR in a chain and what is around it; 30,000 to 50,000 crash pylance 14
MAX_JOINED = 12_000
_CLOSINGS = {"(": ")", "[": "]", "{": "}", "case": "end"}
# characters with which Lance may find other quotes than `QUOTED`
_UNCLEAR = re.compile(r"['`\\$]")
# a text, which calls nothing, or what is called; || makes texts of texts
_CALL = re.compile(r"'[^']*'|`([^`]*)`(?:\s*(\())?|(\w+)\s*\(|(\|\|)")
# what may stand before a parenthesis without a call
_KEYWORDS = {
    *("and", "or", "not", "in", "is", "like", "ilike", "between", "interval", "date"),
    *("decimal", "numeric", "varchar", "char", "timestamp", "datetime", "cast"),
    "try_cast",
}
# those of plain conditions, which Lance computes once
_CONSTANT = {"isnan", "arrow_cast"}
# their results are no larger than their arguments
_FUNCTIONS = {
    *("lower", "upper", "length", "char_length", "character_length", "octet_length"),
    *("bit_length", "starts_with", "ends_with", "contains", "strpos", "left", "right"),
    *("btrim", "ltrim", "rtrim", "reverse", "regexp_match", "regexp_like"),
    *("coalesce", "nullif", "ifnull", "nvl", "abs", "ceil", "floor", "round", "trunc"),
    *("signum", "sqrt", "exp", "ln", "log", "log2", "log10", "power", "pow"),
    *("date_part", "datepart", "date_trunc", "datetrunc", "to_date", "to_timestamp"),
    *("to_timestamp_seconds", "to_timestamp_millis", "to_timestamp_micros"),
    *("to_timestamp_nanos", "now", "current_date", "today"),
    *("array_has", "array_has_any", "array_has_all", "array_contains", "list_has"),
    *("list_contains", "array_length", "list_length", "cardinality", "array_position"),
    *("get_field", "json_extract", "json_exists", "json_get", "json_get_string"),
    *("json_get_int", "json_get_float", "json_get_bool", "json_array_contains"),
    *("json_array_length", "contains_tokens"),
}
# of text that Lance may repeat for each row of a batch (pylance 14)
_MAX_TEXT = 2000


def check_filter(text: Any, state: str = "; nothing was changed") -> str | None:
    """Refuse a filter that Lance would misread, or that would take all memory.

    Return it in parentheses. ``state`` ends the fact in the message of a refusal.
    """
    if text is None:
        return None
    if not isinstance(text, str) or len(text.encode(errors="replace")) > MAX_BYTES:
        raise HTTPError(
            400,
            f"the filter is not a string of at most {format_bytes(MAX_BYTES)}{state}; send a "
            "condition such as \"n > 1 AND s = 'x'\"",
        )
    fault = find_fault(text)
    if fault:
        fact, cure = fault
        raise HTTPError(400, f"the filter {text!r:.100} {fact}{state}; {cure}")
    bare = QUOTED.sub(" ", text)
    is_clear = not _UNCLEAR.search(bare)
    nested, joined = _count_nested(bare)
    if not is_clear:
        nested = len(_words(text))
    if nested > MAX_NESTED:
        raise HTTPError(
            400,
            f"the filter nests more than {MAX_NESTED} words and operators{state}; "
            "shorten it, for example with column IN (1, 2, 3)",
        )
    if joined > MAX_JOINED:
        raise HTTPError(
            400,
            f"the filter joins more than {MAX_JOINED:,} conditions by AND and OR in a "
            f"chain{state}; group them in parentheses, or write column IN (1, 2, 3)",
        )
    _check_calls(text, state, is_clear=is_clear)
    # without parentheses, Lance ignores anything after a complete condition
    # (pylance 14)
    return f"({text})"


def _check_calls(text: str, state: str, *, is_clear: bool) -> None:
    """Refuse functions that may make large values of small ones."""
    searched = text if is_clear else text.replace("'", " ")
    called = set()
    for found in _CALL.finditer(searched):
        is_quoted = found[1] is not None
        name = found[4] or found[3] or (found[1] if found[2] else "")
        if name and (is_quoted or name.lower() not in _KEYWORDS):
            called.add(name.lower())
    for name in called - _CONSTANT - _FUNCTIONS:
        shown = name if name == "||" else f"{name}()"
        raise HTTPError(
            400,
            f"the filter {text!r:.100} calls {shown}, which the embedded service does not "
            f"allow, as it may take all memory{state}; compare columns with values",
        )
    if called <= _CONSTANT:
        return
    size = _count_text(text)
    if size > _MAX_TEXT:
        raise HTTPError(
            400,
            f"the filter calls functions and has {size:,} characters of text, more than "
            f"{_MAX_TEXT:,}{state}; compare columns with values, or shorten it",
        )


def _count_text(text: str) -> int:
    """Count the characters of texts outside IN lists, which are read once."""
    lengths = re.sub("'[^']*'", lambda quoted: f"'{len(quoted[0])}'", text)
    outside = re.sub(r"\bin\s*\([^()]*\)", " ", lengths, flags=re.IGNORECASE)
    return sum(map(int, re.findall(r"'(\d+)'", outside)))


def _words(text: str) -> list[str]:
    """Return words and operators; numbers in digits alone do not nest."""
    found = re.findall(r"\w+|->|[^\w\s.']", text)
    return [word.lower() for word in found if not word.isdecimal()]


@dataclass
class _Level:
    """What is between one parenthesis, bracket or CASE and its end."""

    closing: str = ""
    # words since the last AND, OR or comma
    here: int = 0
    # those in whose operand the engine may read a following AND
    kept: int = 0
    open_betweens: int = 0
    # AND and OR
    joined: int = 0


def _count_nested(text: str) -> tuple[int, int]:
    """Count what may nest in each other, up to the limit: words, and AND or OR.

    Operands of AND, OR and commas do not nest in each other. Those inside parentheses
    nest in what is before them.
    """
    levels = [_Level()]
    most = 0
    most_joined = 0
    for word in _words(text):
        level = levels[-1]
        if word == "and" and level.open_betweens:
            level.open_betweens -= 1
            level.here += 1
        elif word in ("and", "or", ","):
            level.here = level.kept
            level.joined += word != ","
            most_joined = max(most_joined, sum(one.joined for one in levels))
        elif word in _CLOSINGS.values() and word != "end":
            _close(levels, word)
        elif word == "end" and level.closing == "end":
            levels.pop()
        else:
            level.here += 1
            level.kept += word in ("interval", "->")
            level.open_betweens += word == "between"
        if word in _CLOSINGS:
            levels.append(_Level(_CLOSINGS[word]))
        most = max(most, sum(one.here for one in levels))
        # deeper levels would take quadratic time
        if most > MAX_NESTED:
            break
    return most, most_joined


def _close(levels: list[_Level], closing: str) -> None:
    """Leave the innermost pair of brackets, and the CASEs without END inside."""
    if closing in [level.closing for level in levels]:
        while levels.pop().closing != closing:
            pass
