"""Names of columns and tables, nested paths, and what an unknown name may mean."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

from rt_frames._text import MAX_LISTED, list_names, show_value

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable
    from typing import TypeVar

    T = TypeVar("T", bound=Hashable)

DialectName = Literal["documented", "lancedb"]


def has_control_characters(name: str) -> bool:
    """Return whether a name holds control characters or lone surrogates."""
    # fast, and true of nearly every name
    if name.isprintable():
        return False
    for code in map(ord, name):
        if code < 32 or 127 <= code < 160 or 0xD800 <= code < 0xE000:
            return True
    return False


def duplicates(names: Iterable[T]) -> list[T]:
    """Return names that occur more than once, in the order of first occurrence."""
    return [name for name, number in Counter(names).items() if number > 1]


# Lance's own columns; the last two are those of its merges (pylance 14)
RESERVED = (
    "_rowid",
    "_rowaddr",
    "_rowoffset",
    "_row_created_at_version",
    "_row_last_updated_at_version",
    "__action",
    "__merge_source_sentinel",
)


def name_error(text: str) -> str:
    """Add the ``clean_names`` hint."""
    return f"{text}; rename them, or pass clean_names=True"


def check_column_names(names: list[str], note: str = "") -> None:
    """Raise ValueError for column names that the engine cannot store."""
    if not names:
        raise ValueError("the frame has no columns; a table needs at least one")
    if len(set(names)) < len(names):
        twice = list_names(duplicates(names))
        raise ValueError(
            f"column names occur more than once: {twice}{note}; rename them"
        )
    if "" in names:
        raise ValueError(
            f"column number {names.index('') + 1} has an empty name; name it, or pass "
            "clean_names=True"
        )
    odd = [name for name in names if has_control_characters(name)]
    if odd:
        raise ValueError(
            name_error(
                f"column names must not contain control characters: {list_names(odd)}"
            )
        )


def check_no_dots(names: list[str]) -> None:
    """Raise ValueError for names that would read as the path of a nested column."""
    dotted = [name for name in names if "." in name]
    if dotted:
        why = "which separate the levels of nested columns"
        raise ValueError(
            name_error(
                f"column names must not contain dots, {why}: {list_names(dotted)}"
            )
        )


def clean_names(labels: Iterable[Any]) -> list[str]:
    """Make a column name that every service accepts of each label, by it alone.

    MultiIndex levels are joined with ``_``, invalid characters become ``_``, reserved
    names get a trailing ``_``. ValueError if two labels have one name.
    """
    owners: dict[str, Any] = {}
    for label in labels:
        name = _clean(label)
        if name in owners:
            raise ValueError(
                f"clean_names: the labels {show_value(owners[name])} and "
                f"{show_value(label)} both become {name!r}; nothing was sent; rename one "
                "of them"
            )
        owners[name] = label
    return list(owners)


def _clean(label: Any) -> str:
    levels = label if isinstance(label, tuple) else (label,)
    name = "_".join(filter(None, map(str, levels)))
    characters = list(name)
    for number, character in enumerate(name):
        if character in ".`" or has_control_characters(character):
            characters[number] = "_"
    clean = "".join(characters)
    return f"{clean}_" if clean in ("", "*", *RESERVED) else clean


def join_path(parent: str, name: str) -> str:
    """Return the path of a nested column, such as ``outer.inner``."""
    return f"{parent}.{name}" if parent else name


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Suggest the names closest to an unknown name, else list all names."""
    names = list(known)
    if not names:
        return "there are none"
    close = closest_names(name, names)
    if close:
        return f"did you mean {list_names(close)}?"
    return f"known: {list_names(sorted(names))}"


def list_unknown(names: list[str], known: Iterable[str]) -> str:
    """List unknown names, each with those that it may mean, else with all names."""
    known = list(known)
    if not any(closest_names(name, known) for name in names):
        return f"{list_names(names)} ({did_you_mean(names[0], known)})"
    meant = [name for name in names[:MAX_LISTED] if closest_names(name, known)]
    offers = [f"{name!r} ({did_you_mean(name, known)})" for name in meant]
    others = [name for name in names if name not in meant]
    return ", ".join(offers + ([list_names(others)] if others else []))


def closest_names(name: str, names: Iterable[str], cutoff: float = 0.6) -> list[str]:
    """Return the names that are closest to another one.

    These are the names that differ only in case, spaces or underscores, or else up to
    three similar names.
    """
    names = list(names)
    same = [other for other in names if _spell(other) == _spell(name)]
    return same or difflib.get_close_matches(name, names, 3, cutoff)


# options and calls, and the words for them in other libraries; {} is the word
_WORDS = {
    "if_exists": "if_table_exists mode overwrite replace",
    "on": "key keys primary_key",
    "dtypes": "dtype schema schema_overrides",
    "where": "condition filter filters predicate query",
    "limit": "n n_rows nrows",
    "columns": "usecols",
    "create_table": "to_table",
    "api_key": "key password token",
    "target": "host path uri url",
    "rt.table(name).drop(…)": "delete_table remove_table",
    "rt.table(name).{}(…)": "cast compact count delete drop head history rename restore "
    "scan set_nullable to_arrow to_pandas to_polars",
    "rt.table(name).to_pandas(), .to_polars() or .scan()": "collect df execute fetch "
    "filter get iloc lazy load loc open query read sample search select sql tail to_csv "
    "to_df to_dict to_numpy to_parquet",
    "rt.to_table(df, name, if_exists=…)": "add append create insert merge merge_insert "
    "overwrite put replace save store to_sql truncate update upsert write",
    "rt.alter_table(df, name, …)": "add_columns alter drop_columns",
    "rt.table(name).cast(…)": "astype",
    "rt.table(name).count()": "count_rows num_rows shape size",
    "rt.table(name).schema": "describe dtypes info",
    "rt.table(name).history()": "list_versions versions",
    "rt.table(name, version=…).restore()": "checkout rollback",
    "rt.table(name).compact()": "cleanup_old_versions optimize vacuum",
    "rt.list_tables()": "exists list table_names tables",
    "rt.disconnect()": "close",
}


def what_is_meant(name: str, known: Iterable[str], cure: str = "") -> str:
    """Suggest what to write for an unknown attribute or option, else the cure."""
    known = [one for one in known if one[0] != "_"]
    for ours, words in _WORDS.items():
        if {name, name.removesuffix("_table")} & set(words.split()):
            if ours in known:
                return f"did you mean {ours!r}?"
            if "." in ours:
                return f"call {ours.format(name.removesuffix('_table'))}"
    # also of short words, of which any two are alike
    close = closest_names(name, known, cutoff=0.7)
    if close or not cure:
        return did_you_mean(name, close or known)
    return cure


def _spell(name: str) -> str:
    return name.casefold().replace(" ", "").replace("_", "")


def check_order(data: Any, name: Any, call: str) -> None:
    """Raise TypeError if the caller exchanged data and name.

    ``call`` shows the right order, with ``{}`` for the name.
    """
    if isinstance(data, str) and not isinstance(name, str):
        raise TypeError(
            f"data and name are exchanged; call {call.format(show_value(data))}"
        )


def check_table_name(name: Any) -> None:
    """Raise for names that no URL can carry, or that may lead to another table.

    Messages do not repeat the name.
    """
    if not isinstance(name, str):
        raise TypeError(f"name: expected a string, got {type(name).__name__}")
    # a proxy may decode a URL once more than the service does
    for decoded in (name, unquote(name)):
        if decoded in ("", ".", ".."):
            raise ValueError("name: must not be empty, '.' or '..', also written %2E")
        if "/" in decoded or "\\" in decoded:
            raise ValueError(_refuse_slash(unquote(name)))
    if has_control_characters(name):
        raise ValueError("name: must not contain control characters or lone surrogates")
    if len(name.encode()) > 255:
        raise ValueError("name: must have at most 255 bytes in UTF-8; shorten it")


def _refuse_slash(name: str) -> str:
    """Return the message for a name with slashes, which may be the path of a table."""
    folder, _, last = name.replace("\\", "/").rpartition("/")
    table = last.removesuffix(".lance")
    is_path = re.match(r"(\.{0,2}|~.*|[A-Za-z]:)(/|$)", folder) is not None
    if not is_path or table in ("", ".", ".."):
        return r"name: must not contain / or \, also written %2F or %5C; use _ or . instead"
    return (
        f"name: expected a name, not a path; pass {show_value(table)} alone, and name "
        f"the folder in rt.connect({show_value(folder or '/')})"
    )
