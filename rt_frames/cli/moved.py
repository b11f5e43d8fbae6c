"""The commands that loaded, wrote and changed tables: Python does so in one line.

Each of them prints that line for the arguments that it gets, and exits with 2.
"""

from __future__ import annotations

from pathlib import PurePath

import click

# of arguments that tell no other
_OTHER = ".parquet"
# the line that reads a file, and the one that writes one, by suffix
_READ = {
    ".parquet": "pl.scan_parquet({path!r}).pipe(rt.to_table, {table!r})",
    ".csv": "pl.scan_csv({path!r}, try_parse_dates=True).pipe(rt.to_table, {table!r})",
    ".ndjson": "pl.scan_ndjson({path!r}).pipe(rt.to_table, {table!r})",
    ".json": "pl.read_json({path!r}).pipe(rt.to_table, {table!r})",
    ".xlsx": "pd.read_excel({path!r}).pipe(rt.to_table, {table!r})",
    ".arrow": "pl.scan_ipc({path!r}).pipe(rt.to_table, {table!r})",
}
_WRITE = {
    ".parquet": "rt.table({table!r}).scan().sink_parquet({path!r})",
    ".csv": "rt.table({table!r}).scan().sink_csv({path!r})",
    ".ndjson": "rt.table({table!r}).scan().sink_ndjson({path!r})",
    ".json": "rt.table({table!r}).to_polars().write_json({path!r})",
    ".xlsx": "rt.table({table!r}).to_pandas().to_excel({path!r}, index=False)",
    ".arrow": "rt.table({table!r}).scan().sink_ipc({path!r})",
}
# other suffixes of these forms
_SAME = {
    ".pq": ".parquet",
    ".jsonl": ".ndjson",
    ".feather": ".arrow",
    ".ipc": ".arrow",
}
_ALTER = {_OTHER: "rt.table({table!r}).rename({{'old_name': 'new_name'}})"}
_DELETE = {_OTHER: "rt.table({table!r}).delete({where!r})"}
_MODULES = {"pl": "polars", "pd": "pandas"}


class Moved(click.ClickException):
    """A command that is a line of Python now."""

    exit_code = 2


def _moved(name: str, summary: str, lines: dict[str, str]) -> click.Command:
    """Make a command that only says which line of Python does what it did."""

    @click.command(
        name,
        hidden=True,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True},
    )
    @click.option("--url")
    @click.option("--where", default="n = 1")
    @click.argument("words", nargs=-1)
    def command(url: str | None, where: str, words: tuple[str, ...]) -> None:
        table = "t"
        if words and not words[0].startswith("-"):
            table = words[0]
        suffix = _OTHER
        # no file of this name is read or replaced by a line that is pasted
        path = "FILE.parquet"
        files = [word for word in words[1:] if _form(word) in lines]
        # of several, one would be read and the others forgotten
        if len(files) == 1:
            path = files[0]
            suffix = _form(path)
        code = lines[suffix].format(table=table, path=path, where=where)
        raise Moved(f"{summary}: {_with_imports(code, url)}")

    return command


def _form(path: str) -> str:
    suffix = PurePath(path).suffix.lower()
    return _SAME.get(suffix, suffix)


def _with_imports(code: str, url: str | None) -> str:
    """Return a line of Python that runs on its own."""
    imports = "import rt_frames as rt"
    library = code.partition(".")[0]
    if library in _MODULES:
        imports = f"import {_MODULES[library]} as {library}, rt_frames as rt"
    connect = "" if url is None else f"rt.connect({url!r}); "
    return f"{imports}; {connect}{code}"


COMMANDS = [
    _moved("create", "files are read in Python now", _READ),
    _moved("export", "files are written in Python now", _WRITE),
    _moved("alter", "columns are changed in Python now", _ALTER),
    _moved("delete", "rows are deleted in Python now", _DELETE),
]
