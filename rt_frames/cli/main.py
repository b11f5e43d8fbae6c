"""The console script: ``rt-frames demo | serve | tables | show | create | plan | alter``.

The connection comes from options or the environment; the key only from the environment or a file, since a command
line can be read by everybody on the machine. Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 130 interrupted.
What a command needs is imported when it runs, so that ``--help`` and the shell's completion are quick.
"""

from __future__ import annotations

import codecs
import functools
import glob
import json
import logging
import os
import re
import signal
import sys
import tempfile
import traceback
import warnings
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from rt_frames import errors
from rt_frames._display import Listing, as_text
from rt_frames._extras import require
from rt_frames._text import count, format_bytes
from rt_frames._version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pyarrow as pa

    from rt_frames._client import Client, RemoteTable
    from rt_frames._schema.alterations import AlterationPlan

_VERBOSITY, _HANDLER = "rt_frames.verbosity", "rt_frames.handler"  # 1 and more for -v, -1 for -q; where logs go
_IN_SHELL = {  # what the package's messages call things → what they are called here
    r'\bif_exists="(\w+)"': r"--if-exists \1",
    r"\bapi_key=\.\.\.": "--key-file",
    r"\ballow_insecure=True": "--allow-insecure",
    r"\bgive verify=PATH": "set REQUESTS_CA_BUNDLE",
    r"\bconnect\(.{1,4}dialect=\"(\w+)\"\)": r"--dialect \1",
    r"\bdtypes=\{ ?'([^']*)': ['\"]?(.*?)['\"]? ?\}": r"--dtype \1=\2",
    r"\brename=\{'([^']*)': '([^']*)'\}": r"--rename \1=\2",
    r"\blist_tables\(\) gives": "rt-frames tables lists",
    r"\bclean_names=True": "--clean-names",
    r"\bstrict=False": "--no-strict",
    r"Send two, as plan\.requests\(\) gives them": "alter sends two",
}


def _in_shell(text: str) -> str:
    for pattern, word in _IN_SHELL.items():
        text = re.sub(pattern, word, text)
    return text


class _Reporting(click.Group):
    """Turns what can fail into at most three lines on standard error and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always", UserWarning)
                warnings.showwarning = lambda text, *_: click.echo(f"Warning: {_in_shell(str(text))}", err=True)
                return super().invoke(ctx)
        except BrokenPipeError:  # whoever read our output has had enough; click leaves quietly
            raise
        except _failures() as error:
            text = _in_shell(str(error))
            if ctx.meta.get(_VERBOSITY, 0) > 0:
                traceback.print_exc()
            elif text.count("\n") > 2:
                text = "\n".join([*text.split("\n")[:2], "… (-v shows all)"])
            raise click.ClickException(text) from error
        except KeyboardInterrupt:
            click.echo("interrupted; a table is created whole or not at all", err=True)
            ctx.exit(130)


def _failures() -> tuple[type[Exception], ...]:
    polars = sys.modules.get("polars")  # the errors of a library that was not loaded cannot have been raised
    known = (errors.RemoteError, ValueError, TypeError, OSError, ImportError)
    return *known, *([polars.exceptions.PolarsError] if polars else [])


@click.group(
    cls=_Reporting,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 130 interrupted.",
)
@click.version_option(__version__, prog_name="rt-frames")
def main() -> None:
    """Make files of tables remote tables, and change their columns."""


def _with_options(*options: Callable[[Any], Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return lambda command: functools.reduce(lambda decorated, option: option(decorated), reversed(options), command)


def _set_verbosity(ctx: click.Context, param: click.Parameter, value: int) -> None:
    """Show what the package logs on standard error, until the command ends."""
    if not value or ctx.resilient_parsing:
        return
    level = -1 if param.name == "quiet" else value
    ctx.meta[_VERBOSITY] = level
    _show_log("rt_frames", {-1: logging.ERROR, 1: logging.INFO}.get(level, logging.DEBUG), ctx)


def _show_log(name: str, level: int, ctx: click.Context) -> None:
    log, ours = logging.getLogger(name), logging.getLogger("rt_frames")
    ctx.call_on_close(functools.partial(log.setLevel, log.level))
    log.setLevel(level)
    if ctx.meta.setdefault(_HANDLER, handler := logging.StreamHandler()) is handler:
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        ctx.call_on_close(functools.partial(ours.removeHandler, handler))
        ours.addHandler(handler)


def _is_quiet() -> bool:
    return bool(click.get_current_context().meta.get(_VERBOSITY, 0) < 0)


_verbosity = _with_options(
    click.option(
        "-v", "--verbose", count=True, expose_value=False, callback=_set_verbosity, help="Say more; -vv: all."
    ),
    click.option("-q", "--quiet", is_flag=True, expose_value=False, callback=_set_verbosity, help="Say nothing."),
)


def _with_service(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say which service is meant; the command is given ``connect``, which opens it."""

    @_with_options(
        click.option("--url", help="The service's address, or a folder. Default: RT_FRAMES_URL."),
        click.option(
            "--key-file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="A file that holds the API key. Default: RT_FRAMES_API_KEY.",
        ),
        click.option(
            "--allow-insecure", is_flag=True, help="Allow plain http to another machine: the key can be read."
        ),
        click.option(
            "--dialect",
            type=click.Choice(["documented", "lancedb"]),
            help="The addresses that the service knows. Default: RT_FRAMES_DIALECT, or documented.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print JSON for machines."),
        _verbosity,
    )
    @functools.wraps(command)
    def run(url: str | None, key_file: Path | None, allow_insecure: bool, dialect: str | None, **options: Any) -> None:
        service: dict[str, Any] = {"allow_insecure": allow_insecure, "dialect": dialect}
        command(connect=functools.partial(_connect, url, key_file, **service), **options)

    return run


def _connect(url: str | None, key_file: Path | None, *, make_folder: bool = False, **options: Any) -> Client:
    from rt_frames import _api

    try:
        where = _api.parse_target(url, None, None)
    except errors.NotConnectedError as error:
        text = "no service: give --url, its address or a folder, or set RT_FRAMES_URL (and RT_FRAMES_API_KEY)"
        raise errors.NotConnectedError(text) from error
    except ValueError as error:
        raise ValueError(
            f"{str(error).partition(';')[0]}; give --url with an address, or a folder as ./NAME"
        ) from error
    if isinstance(where, Path) and not make_folder and not where.is_dir():
        raise ValueError(f"{where}: there is no such folder; create and serve make one")
    key = key_file.read_text().strip() if key_file is not None else None
    return _api.connect(where, api_key=key, default=False, **options)


def _complete_table(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    given = {name: ctx.params[name] for name in ("url", "key_file", "allow_insecure", "dialect")}
    try:
        names = _connect(**given, timeout=2, retries=0).list_tables()
    except Exception:  # noqa: BLE001  # a shell that completes a word has no place for errors
        return []
    return [name for name in names if name.startswith(incomplete)]


def _complete_table_or_file(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    return [*map(CompletionItem, _complete_table(ctx, param, incomplete)), CompletionItem(incomplete, type="file")]


_TABLE = click.argument("name", shell_complete=_complete_table)


_SAMPLE = click.FloatRange(0.001, 2000)


def _with_files(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say how files are read; the command is given ``open_files``, and the types asked for."""

    @_with_options(
        click.option(
            "--format", type=click.Choice(["parquet", "csv", "ndjson", "arrow"]), help="Default: by the name."
        ),
        click.option("--separator", metavar="CHAR", help="Between cells of CSV. Default: a comma; a tab in .tsv."),
        click.option("--decimal", metavar="CHAR", default=".", show_default=True, help="The decimal point of CSV."),
        click.option("--encoding", callback=_check_encoding, help="Of CSV and NDJSON. Default: UTF-8."),
        click.option("--null", "nulls", multiple=True, metavar="TEXT", help="A further cell of CSV that means null."),
        click.option(
            "--sample",
            type=_SAMPLE,
            default=1.0,
            show_default=True,
            metavar="MB",
            help="Of text that types are found in.",
        ),
        click.option(
            "--dtype", "dtypes", multiple=True, metavar="NAME=DTYPE", help="A column's type, if not as found."
        ),
    )
    @functools.wraps(command)
    def run(dtypes: tuple[str, ...], **options: Any) -> None:
        from rt_frames._schema.any_dtype import to_arrow_type
        from rt_frames.cli.files import Options, open_files

        own = {name: options.pop(name) for name in Options._fields if name in options}
        own["sample"] = int(own["sample"] * 2**20)
        own["separator"] = "\t" if own["separator"] == r"\t" else own["separator"]
        for name in ("separator", "decimal"):
            if own[name] is not None and len(own[name].encode()) != 1:
                raise click.UsageError(f"--{name}: expected one ASCII character, got {own[name]!r:.50}")
        types = {name: to_arrow_type(dtype, name) for name, dtype in _pairs(dtypes, "NAME=DTYPE").items()}
        command(open_files=functools.partial(open_files, options=Options(dtypes=types, **own)), dtypes=types, **options)

    return run


def _check_encoding(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    try:
        return value and codecs.lookup(value).name
    except LookupError as error:
        raise click.BadParameter(f"{error}; for example cp1252, latin-1, utf-16") from error


def _pairs(pairs: Iterable[str], form: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not value:
            raise click.UsageError(f"{pair!r}: expected {form}")
        if name in found:
            raise click.UsageError(f"{pair!r}: the same change of {name!r} is given twice")
        found[name] = value
    return found


def _columns(schema: pa.Schema | None) -> list[dict[str, Any]] | None:
    return None if schema is None else [{"name": f.name, "type": str(f.type), "nullable": f.nullable} for f in schema]


def _report(done: str, table: RemoteTable, as_json: bool, **facts: Any) -> None:
    """Print what became of a table, for a person or a machine."""
    if as_json:
        click.echo(json.dumps({"table": table.name, **facts, "version": table.version}))
    elif not _is_quiet():
        known = [count(len(facts["columns"]), "column")] if facts.get("columns") else []
        known += [count(table.rows, "row")] if table.rows is not None else []
        known += [f"{format_bytes(table.nbytes)} sent"] if table.nbytes else []
        known += [f"version {table.version}"] if table.version is not None else []
        click.echo(f"{done} {table.name}: {', '.join([*known, f'at {table.client}'])}")


@main.command()
@_with_service
def tables(connect: Callable[[], Client], as_json: bool) -> None:
    """List the tables."""
    names = connect().list_tables()
    if names or as_json:
        click.echo(json.dumps(names) if as_json else "\n".join(names))


@main.command()
@_TABLE
@_with_service
def show(name: str, connect: Callable[[], Client], as_json: bool) -> None:
    """Show the columns of table NAME.

    A folder's service can tell them, and one of --dialect lancedb.
    """
    table = connect().table(name)
    columns = _columns(_schema(table))
    if as_json:
        _report("", table, as_json, columns=columns, rows=table.rows)
        return
    rows = [(column["name"], column["type"], "yes" if column["nullable"] else "no") for column in columns or ()]
    known = [count(len(rows), "column"), *([count(table.rows, "row")] if table.rows is not None else [])]
    click.echo(as_text(Listing(f"{name}: {', '.join(known)}, at {table.client}", ("column", "type", "nullable"), rows)))


def _schema(table: RemoteTable) -> pa.Schema:
    if table.schema is None:
        raise ValueError(
            f"{table.client} does not tell the columns of {table.name!r}; only a folder or --dialect lancedb does"
        )
    return table.schema


@main.command()
@click.argument("name")
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--if-exists", type=click.Choice(["fail", "skip", "replace"]), default="fail", show_default=True)
@click.option("--rename", multiple=True, metavar="OLD=NEW", help="Rename a column.")
@click.option("--clean-names", is_flag=True, help="Make names of those that a table cannot have: 'a.b' becomes a_b.")
@_with_files
@_with_service
def create(
    name: str, paths: tuple[Path, ...], if_exists: Any, rename: tuple[str, ...], clean_names: bool, open_files: Any,
    dtypes: Any, connect: Callable[..., Client], as_json: bool,
) -> None:  # fmt: skip
    """Create table NAME from files.

    Parquet, CSV, NDJSON or Arrow; '-' is standard input, with --format. Several files, or a glob such as
    'data/*.parquet', make one table. They are streamed, so that they may be larger than memory; a progress bar is shown
    on standard error where that is a terminal. The types of CSV and NDJSON come from a sample of each file; a later
    cell that does not fit is refused with its line. They may be packed: .csv.gz.
    """
    new = _pairs(rename, "OLD=NEW")
    table = connect(make_folder=True).create_table(
        name,
        open_files(paths, rename=new, clean=clean_names),
        dtypes={new.get(column) or column: dtype for column, dtype in dtypes.items()},
        if_exists=if_exists,
        progress=sys.stderr.isatty() and not _is_quiet(),
    )
    facts = {"created": table.created, "rows": table.rows, "columns": _columns(table.schema), "bytes": table.nbytes}
    _report("created" if table.created else "skipped, was there already:", table, as_json, **facts)


@main.command()
@click.argument("before", shell_complete=_complete_table_or_file)
@click.argument("after", shell_complete=_complete_table_or_file)
@click.option("--rename", multiple=True, metavar="OLD=NEW", help="A column that was renamed.")
@click.option("--strict/--no-strict", default=True, help="Whether a column on one side only is an error. Default: yes.")
@_with_files
@_with_service
def plan(
    before: str, after: str, rename: tuple[str, ...], strict: bool, open_files: Any, dtypes: Any,
    connect: Callable[[], Client], as_json: bool,
) -> None:  # fmt: skip
    """Show what would change from BEFORE to AFTER.

    Each is a file, or else a table. Nothing is sent; alter makes the change.
    """
    from rt_frames import _api
    from rt_frames.cli.files import SUFFIXES

    def columns(given: str) -> Any:
        path = Path(given)
        if given == "-" or path.exists() or glob.has_magic(given) or path.suffix in chain(*SUFFIXES.values()):
            schema = open_files([path]).schema
            return {f.name: dtypes.get(f.name, f.type) for f in schema}
        schema = _schema(connect().table(given))
        return dict(zip(schema.names, schema.types, strict=True))

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found = _api.plan_alterations(columns(before), columns(after), rename=_pairs(rename, "OLD=NEW"), strict=strict)
    for warning in warned:
        click.echo(_in_shell(f"Warning: {warning.message}"), err=True)
    click.echo(json.dumps(found.to_json()) if as_json else _in_shell(repr(found)))


@main.command()
@_TABLE
@click.option("--rename", multiple=True, metavar="OLD=NEW", help="Rename a column.")
@click.option("--cast", multiple=True, metavar="PATH=DTYPE", help="Change a column's type.")
@click.option("--nullable", multiple=True, metavar="PATH=true|false", help="Allow or forbid nulls.")
@click.option("--dry-run", is_flag=True, help="Show what would be sent, and send nothing.")
@_with_service
def alter(name: str, dry_run: bool, connect: Callable[[], Client], as_json: bool, **changes: tuple[str, ...]) -> None:
    """Change columns of table NAME.

    In one request, or in two where the engine does not take all in one. PATH is a column's name, or outer.inner for a
    field of a struct. DTYPE is what pandas, Polars or Arrow call it: int32, float64, string, date32, 'timestamp[us,
    tz=UTC]'.
    """
    plan = _parse_changes(**changes)
    requests = plan.requests()
    if dry_run:
        shown = [json.dumps(part.to_json()) for part in requests] if as_json else [_in_shell(repr(plan))]
        click.echo("\n".join(shown))
        return
    table = connect().table(name)
    for number, part in enumerate(requests, start=1):
        paths = ", ".join(one.path for one in part)
        try:
            table = table.alter_columns(part)
        except errors.RemoteError as error:
            if number > 1:
                error.args = (f"{error}; the first request, which casts, is done; this was the second: {paths}",)
            raise
        if len(requests) > 1 and not as_json and not _is_quiet():
            click.echo(f"request {number} of {len(requests)}, which cannot be one: {paths}")
    _report("altered", table, as_json, requests=len(requests))


def _parse_changes(rename: tuple[str, ...], cast: tuple[str, ...], nullable: tuple[str, ...]) -> AlterationPlan:
    from rt_frames._schema.alterations import Alteration, AlterationPlan

    changes: dict[str, dict[str, Any]] = {}
    for field, pairs in {"rename": rename, "data_type": cast, "nullable": nullable}.items():
        for path, value in _pairs(pairs, "PATH=VALUE").items():
            if field == "nullable" and value not in ("true", "false"):
                raise click.UsageError(f"'{path}={value}': expected PATH=true or PATH=false")
            changes.setdefault(path, {})[field] = value == "true" if field == "nullable" else value
    if not changes:
        raise click.UsageError("nothing to change; give --rename, --cast or --nullable")
    return AlterationPlan([Alteration(path, **change) for path, change in changes.items()])


@main.command()
@click.argument("root", type=click.Path(file_okay=False, path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=0, show_default="a free one", type=click.IntRange(0, 65535), help="The port.")
@_verbosity
def serve(root: Path, host: str, port: int) -> None:
    """Serve the tables of folder ROOT over HTTP.

    The key is that of RT_FRAMES_API_KEY, or a random one that is printed. Each request is a line on standard error.
    """
    ends = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # in all threads: a handler would wait for the main one to wake
    from rt_frames.local import LocalService

    if not _is_quiet():
        _show_log("rt_frames.access", logging.DEBUG, click.get_current_context())
    key = os.environ.get("RT_FRAMES_API_KEY")
    with LocalService(root, host=host, port=port, api_key=key) as service:
        click.echo(f"export RT_FRAMES_URL={service.url}")
        if key is None:
            click.echo(f"export RT_FRAMES_API_KEY={service.api_key}")
        click.echo(f"serving {service.root}; stop with Ctrl-C", err=True)
        signal.sigwait(ends)
        for number in ends:
            signal.signal(number, signal.SIG_DFL)  # a second one ends the process at once
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ends)
    click.echo("stopped", err=True)


@main.command()
@click.argument("path", metavar="[FILE]", required=False, type=click.Path(path_type=Path))
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path), help="Keep the tables in this folder.")
@_verbosity
def demo(path: Path | None, keep: Path | None) -> None:
    """Show the main job, and check every value.

    With FILE, or with a calendar, on the embedded service.
    """
    require("local", "cheroot", "lance")
    from rt_frames.cli.demo import calendar, of_file, run

    frames: dict[str, Any] = calendar() if path is None else of_file(path)
    stem = "calendar" if path is None else "".join(c if c.isalnum() and c.isascii() else "_" for c in path.stem)
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        for library, frame in frames.items():
            click.secho(f"\n{library}: {frame.shape[0]:,} rows, {frame.shape[1]} columns", bold=True)
            name = f"{stem}_{library}"
            found = run(frame, name, keep or Path(scratch) / "tables", _show_step)
            click.echo("\n".join(found) or "every value read back with lance equals the frame's")
            wrong += [f"{name}: {difference}" for difference in found]
    if wrong:
        raise click.ClickException(f"{len(wrong)} differences between frames and tables: {'; '.join(wrong)}")


def _show_step(line: str, result: Any) -> None:
    click.secho(f">>> {line}", fg="cyan")
    if result is not None:
        click.echo(str(result))
