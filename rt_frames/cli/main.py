"""The console script ``rt-frames``: its commands and their options.

The connection comes from options or the environment; the key only from the environment
or a file, since everybody on the machine can read a command line. Exit codes: 0 done,
1 refused or failed, 2 wrong usage, 130 interrupted. Commands import libraries when they
run, so that ``--help`` and the shell's completion are quick.
"""

from __future__ import annotations

import codecs
import contextlib
import dataclasses
import datetime
import functools
import itertools
import json
import logging
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from rt_frames import errors
from rt_frames._display import Listing, as_text
from rt_frames._extras import require
from rt_frames._names import DialectName, check_table_name, did_you_mean
from rt_frames._text import (
    Message,
    count,
    join_hint,
    make_printable,
    shorten,
    show_value,
)
from rt_frames._threads import end_at_next_interrupt
from rt_frames._version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from rt_frames._client import Client, RemoteTable
    from rt_frames._schema.alterations import AlterationPlan
    from rt_frames.cli.input_file import FileOptions
    from rt_frames.local import LocalService

Pairs = dict[str, str]

# a parameter of the API → the command's option
_CLI_NAMES = {"dtypes": "dtype", "api_key": "key_file", "target": "url"}
# lines of an error, without -v
MAX_LINES = 12
_NO_SERVICE = "give --url, with an address or a folder such as ./NAME, or set RT_FRAMES_URL (and RT_FRAMES_API_KEY)"
_OUTCOME_UNKNOWN = "; each request is done whole or not at all: see which, with rt-frames tables and rt-frames show"


def _spell_for_shell(error: Any, command: click.Command) -> str:
    """Return the text of an error or a warning, with options in the shell's spelling.

    A hint is left out if the command lacks its options.
    """
    text = str(error)
    message = error.args[0] if error.args else None
    if isinstance(message, Message):
        text = message.text
        options = {}
        for parameter, value in message.options.items():
            options[_CLI_NAMES.get(parameter, parameter)] = value
        if options and options.keys() <= {option.name for option in command.params}:
            hint = _NO_SERVICE if "url" in options else message.hint
            spelled = itertools.starmap(_spell_option, options.items())
            text = join_hint(text, hint, " ".join(spelled))
    return _printable_lines(text)


def _usage_error(error: Exception, ctx: click.Context) -> click.UsageError:
    """Return an error for arguments that no service or file would make right."""
    return click.UsageError(_spell_for_shell(error, ctx.command))


def _printable_lines(text: str) -> str:
    return "\n".join(map(make_printable, text.split("\n")))


def _spell_option(name: str, value: Any) -> str:
    option = f"--{name.replace('_', '-')}"
    if value is True:
        return option
    if value is False:
        return option.replace("--", "--no-", 1)
    if not isinstance(value, dict):
        return f"{option} {value}"
    words = []
    for key, item in value.items():
        words += [option, shlex.quote(f"{key}={item}")]
    return " ".join(words)


_VERBOSITY = [
    click.Option(
        ["-v", "--verbose"],
        count=True,
        help="Show the log; -vv also shows every request.",
    ),
    click.Option(
        ["-q", "--quiet"], is_flag=True, help="Print only results and errors."
    ),
]


class _Command(click.Command):
    """A command that logs by -v and -q, and reports errors in a few lines."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.params += _VERBOSITY

    def invoke(self, ctx: click.Context) -> Any:
        verbose = _take_verbosity(ctx)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always", UserWarning)
                warnings.showwarning = lambda warning, *_: click.echo(
                    f"Warning: {_spell_for_shell(warning, self)}", err=True
                )
                try:
                    result = super().invoke(ctx)
                    # output is complete: from here on Ctrl-C ends the process at once,
                    # instead of raising during shutdown
                    end_at_next_interrupt()
                    return result
                finally:
                    # close clients here, where Ctrl-C is handled, rather than during
                    # garbage collection
                    ctx.close()
        except BrokenPipeError:
            # the reader of our output has gone; click exits quietly
            raise
        except (
            errors.RemoteError,
            ValueError,
            TypeError,
            OSError,
            ImportError,
        ) as error:
            lines = _spell_for_shell(error, self).split("\n")
            if verbose:
                click.echo(_printable_lines(traceback.format_exc()), err=True)
            elif len(lines) > MAX_LINES:
                lines[MAX_LINES - 1 :] = ["… (-v shows all)"]
            raise click.ClickException("\n".join(lines)) from error
        except KeyboardInterrupt:
            outcome = ""
            if self.name in ("create", "alter"):
                outcome = _OUTCOME_UNKNOWN
            click.echo(f"interrupted{outcome}", err=True)
            ctx.exit(130)
        finally:
            end_at_next_interrupt()


def _take_verbosity(ctx: click.Context) -> int:
    """Start logging by -v and -q, and return the number of -v.

    Both may also stand before the command, as in ``rt-frames -v create``.
    """
    given = ctx.params
    before = ctx.parent.params if ctx.parent else {}
    verbose: int = given.pop("verbose") or before.get("verbose", 0)
    quiet = given.pop("quiet") or before.get("quiet", False)
    ctx.obj = quiet and not verbose
    level = logging.WARNING
    if verbose:
        level = logging.INFO if verbose == 1 else logging.DEBUG
    elif quiet:
        level = logging.ERROR
    _log_to_stderr(ctx, level)
    return verbose


def _log_to_stderr(ctx: click.Context, level: int) -> None:
    """Write the package's log to standard error until the command ends."""
    log = logging.getLogger("rt_frames")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    ctx.call_on_close(functools.partial(log.setLevel, log.level))
    ctx.call_on_close(functools.partial(log.removeHandler, handler))
    log.setLevel(level)
    log.addHandler(handler)


def _is_quiet() -> bool:
    return bool(click.get_current_context().obj)


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 130 interrupted.",
)
@click.version_option(__version__, prog_name="rt-frames")
def main(**_verbosity: object) -> None:
    """Store data files as remote tables, and alter their columns."""


main.command_class = _Command
main.params += _VERBOSITY


def _combine(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Make one decorator of several."""

    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _check_url(
    ctx: click.Context, _param: click.Parameter, url: str | None
) -> str | None:
    from rt_frames._connect import parse_target

    if url is not None:
        try:
            parse_target(url, None, None)
        except ValueError as error:
            raise _usage_error(error, ctx) from error
    return url


_KEY_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_service = _combine(
    click.option(
        "--url",
        callback=_check_url,
        help="The service's address, or a folder such as ./NAME. Default: RT_FRAMES_URL.",
    ),
    click.option(
        "--key-file",
        type=_KEY_FILE,
        help="A file that holds the API key. Default: RT_FRAMES_API_KEY.",
    ),
    click.option(
        "--allow-insecure",
        is_flag=True,
        help="Allow plain http to another machine; others may read the key.",
    ),
    click.option(
        "--dialect",
        type=click.Choice(get_args(DialectName)),
        help="The endpoints of the service. Default: RT_FRAMES_DIALECT, or documented.",
    ),
)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _connect(
    url: str | None, key_file: Path | None, *, make_folder: bool = False, **options: Any
) -> Client:
    from rt_frames._connect import connect, parse_target

    target = parse_target(url, None, None)
    if isinstance(target, Path) and not make_folder and not target.is_dir():
        raise ValueError(
            f"{target}: there is no such folder; create and serve make one"
        )
    # no variable holds the key, as tracebacks may show it
    client = connect(
        target,
        api_key=key_file.read_text().strip() if key_file else None,
        default=False,
        **options,
    )
    # there is none during shell completion
    if context := click.get_current_context(silent=True):
        context.call_on_close(client.close)
    return client


def _complete_table(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[str]:
    service = {
        name: ctx.params[name]
        for name in ("url", "key_file", "allow_insecure", "dialect")
    }
    try:
        names = _connect(**service, timeout=2, retries=0).list_tables()
    except Exception:  # noqa: BLE001  # shell completion cannot show errors
        return []
    return [
        name for name in names if name.startswith(incomplete) and name.isprintable()
    ]


def _check_name(ctx: click.Context, _param: click.Parameter, name: str) -> str:
    try:
        check_table_name(name)
    except ValueError as error:
        raise _usage_error(error, ctx) from error
    return name


_table = click.argument("name", callback=_check_name, shell_complete=_complete_table)


def _pairs(
    option: str, form: str, text: str, expected: str = "", values: str = "(?s).+"
) -> Callable[[Any], Any]:
    """Make a repeatable option NAME=VALUE, which a command gets as a dict."""

    def parse(
        _ctx: click.Context, _param: click.Parameter, pairs: tuple[str, ...]
    ) -> Pairs:
        found: Pairs = {}
        for pair in pairs:
            name, _, value = pair.partition("=")
            if not re.fullmatch(values, value):
                raise click.UsageError(
                    f"{option}: expected {expected or form}, got {pair!r}"
                )
            if name in found:
                raise click.UsageError(f"{option}: {name!r} is given twice")
            found[name] = value
        return found

    return click.option(option, multiple=True, metavar=form, callback=parse, help=text)


def _parse_separator(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> str | None:
    if value is None:
        return None
    character = value.replace(r"\t", "\t")
    if len(character.encode()) != 1:
        raise click.UsageError(
            f"--separator: expected one ASCII character, got {value!r:.50}"
        )
    return character


def _check_encoding(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> str | None:
    try:
        return value and codecs.lookup(value).name
    except LookupError as error:
        raise click.BadParameter(
            f"{error}; for example cp1252, latin-1, utf-16"
        ) from error


_files = _combine(
    click.option(
        "--format",
        type=click.Choice(["parquet", "csv", "ndjson", "json", "arrow"]),
        help="Default: by the name.",
    ),
    click.option(
        "--separator",
        metavar="CHAR",
        callback=_parse_separator,
        help="Between cells of CSV. Default: a comma; a tab in .tsv.",
    ),
    click.option(
        "--decimal",
        type=click.Choice([".", ","]),
        default=".",
        show_default=True,
        help="The decimal point of CSV.",
    ),
    click.option(
        "--date-format",
        metavar="FORMAT",
        help="Dates of CSV, such as %d/%m/%Y. Default: ISO, %Y-%m-%d.",
    ),
    click.option(
        "--encoding",
        callback=_check_encoding,
        help="Encoding of CSV and JSON. Default: UTF-8.",
    ),
    click.option(
        "--null",
        "nulls",
        multiple=True,
        metavar="TEXT",
        help="A further CSV value that means null; repeatable.",
    ),
    click.option(
        "--no-header",
        "header",
        is_flag=True,
        flag_value=False,
        default=True,
        help="CSV without names.",
    ),
    _pairs(
        "--dtype",
        "NAME=DTYPE",
        "A column's type, by its name in the file, instead of inferring it; repeatable.",
    ),
    click.option(
        "--clean-names", is_flag=True, help="Make valid names: 'a.b' becomes a_b."
    ),
)


def _take_file_options(options: dict[str, Any]) -> FileOptions:
    """Remove from a command's options those for reading files, and return them."""
    from rt_frames._schema.any_dtype import to_arrow_type
    from rt_frames.cli.csv_files import check_date_format
    from rt_frames.cli.input_file import FileOptions

    try:
        dtypes = {
            name: to_arrow_type(dtype, name)
            for name, dtype in options.pop("dtype").items()
        }
    except ValueError as error:
        raise click.UsageError(f"--dtype: {error}") from error
    if options["date_format"] is not None:
        check_date_format(options["date_format"])
    given = FileOptions(dtypes=dtypes)
    for name in options.keys() & FileOptions._fields:
        given = given._replace(**{name: options.pop(name)})
    return given


def _columns(schema: pa.Schema | None) -> list[dict[str, Any]] | None:
    if schema is None:
        return None
    return [
        {"name": field.name, "type": str(field.type), "nullable": field.nullable}
        for field in schema
    ]


def _report(done: str, table: RemoteTable, as_json: bool, **facts: Any) -> None:
    """Print the outcome for a table, as text or JSON."""
    from rt_frames._client import known_facts

    if as_json:
        click.echo(json.dumps({"table": table.name, **facts, "version": table.version}))
    elif not _is_quiet():
        words = ", ".join([*known_facts(table), f"at {table.client}"])
        click.echo(make_printable(f"{done} {table.name}: {words}"))


@main.command(epilog="Example: rt-frames tables --url ./tables")
@_service
@_json
def tables(as_json: bool, **service: Any) -> None:
    """List the tables."""
    names = _connect(**service).list_tables()
    if as_json:
        click.echo(json.dumps(names))
        return
    for name in names:
        click.echo(make_printable(name))


@main.command(epilog="Example: rt-frames show sales --rows 5 --url ./tables")
@_table
@click.option(
    "--rows", type=click.IntRange(1), metavar="N", help="Also show the first N rows."
)
@_service
@_json
def show(name: str, rows: int | None, as_json: bool, **service: Any) -> None:
    """Show the columns of table NAME, if the service can describe it."""
    if rows and as_json:
        raise click.UsageError(
            "--rows cannot be used with --json; rt.table(…).to_arrow() gives rows to a program"
        )
    table = _connect(**service).table(name)
    schema = _schema(table)
    number = table.count()
    if as_json:
        _report("", table, as_json, columns=_columns(schema), rows=number)
        return
    _print_columns(
        f"{name}: {count(len(schema), 'column')}, {count(number, 'row')}, at {table.client}",
        schema,
    )
    if rows and number:
        click.echo(f"\n{_draw(table.to_arrow(limit=rows))}")


def _draw(table: pa.Table) -> str:
    """Draw rows as text, since Polars panics at, or wraps, moments out of its range."""
    import polars as pl

    texts = [
        pl.Series(name, map(_cell_text, table[name]), pl.String)
        for name in table.column_names
    ]
    width = shutil.get_terminal_size((120, 24)).columns
    with pl.Config(
        tbl_width_chars=width,
        tbl_rows=-1,
        tbl_hide_dataframe_shape=True,
        tbl_hide_column_data_types=True,
        fmt_str_lengths=40,
    ):
        return _printable_lines(str(pl.DataFrame(texts)))


def _cell_text(value: pa.Scalar[Any]) -> str | None:
    """Return Arrow's text of a value, also for moments out of Python's range."""
    import pyarrow as pa

    if not value.is_valid:
        return None
    with contextlib.suppress(pa.ArrowException):
        return shorten(make_printable(value.cast(pa.string()).as_py()), 40)
    with contextlib.suppress(Exception):
        return show_value(value.as_py(), 40)
    return f"<{value.type}>"


@main.command(epilog="Example: rt-frames drop sales --yes --url ./tables")
@_table
@click.option("--yes", is_flag=True, help="Drop it; nothing brings its rows back.")
@_service
def drop(name: str, yes: bool, **service: Any) -> None:
    """Drop table NAME and all its rows."""
    if not yes:
        raise click.UsageError(
            f"the rows of {name!r} cannot be recovered; pass --yes to drop the table"
        )
    table = _connect(**service).table(name)
    table.drop()
    if not _is_quiet():
        click.echo(f"dropped {name}, at {table.client}")


def _print_columns(title: str, schema: pa.Schema) -> None:
    rows = []
    for field in schema:
        nullable = "yes" if field.nullable else "no"
        rows.append((field.name, str(field.type), nullable))
    click.echo(as_text(Listing(title, ("column", "type", "nullable"), rows)))


def _schema(table: RemoteTable) -> pa.Schema:
    if table.schema is None:
        text = f"{table.client} cannot describe table {table.name!r} in this dialect"
        raise ValueError(
            Message(
                text, "connect with {} where the server speaks it", dialect="lancedb"
            )
        )
    return table.schema


@main.command(
    epilog="Example: rt-frames create sales 'data/*.csv' --dtype zip=string --url ./tables"
)
@click.argument("name", callback=_check_name)
@click.argument(
    "paths", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--if-exists",
    type=click.Choice(["fail", "skip", "replace", "append"]),
    default="fail",
    show_default=True,
    help="What to do if the name is taken: replace replaces all rows, append adds these.",
)
@_pairs("--rename", "OLD=NEW", "Rename a column.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Show the columns and their types, and send nothing.",
)
@_files
@_service
@_json
def create(
    name: str,
    paths: tuple[Path, ...],
    if_exists: Any,
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Create table NAME from files.

    Parquet, CSV, TSV, NDJSON, JSON or Arrow, also compressed (.csv.gz); '-' is standard
    input, with --format. Several files, or a glob, make one table. They are streamed,
    so they may be larger than memory. The types of text files are printed: an existing
    table's with --if-exists append, or else those of the first 20,000 rows of each CSV
    file. A cell that does not fit is refused with its row.
    """
    from rt_frames._frames.any_frame import open_source
    from rt_frames.cli.files import open_files

    file_options = _take_file_options(options)
    client = None
    if if_exists == "append":
        client = _connect(**options, make_folder=not dry_run)
        with contextlib.suppress(errors.TableNotFoundError):
            file_options = file_options._replace(table=client.table(name).schema)
    source, is_inferred = open_files(paths, file_options)
    with contextlib.closing(source):
        columns = open_source(source, table=file_options.table).schema
        if dry_run:
            _print_types(name, columns, as_json=as_json)
            return
        if is_inferred and not as_json:
            _print_types(name, columns)
        client = client or _connect(**options, make_folder=True)
        is_watched = sys.stderr is not None and sys.stderr.isatty()
        # a source stands for a frame here alone
        data: Any = source
        table = client.create_table(
            name,
            data,
            if_exists=if_exists,
            progress=is_watched and not _is_quiet(),
        )
    _report_created(table, if_exists, as_json)


def _print_types(name: str, schema: pa.Schema, *, as_json: bool = False) -> None:
    if as_json:
        click.echo(json.dumps({"table": name, "columns": _columns(schema)}))
    elif not _is_quiet():
        _print_columns(f"{name}: {count(len(schema), 'column')}", schema)


def _report_created(table: RemoteTable, if_exists: str, as_json: bool) -> None:
    if if_exists == "replace" and (table.version or 1) > 1:
        done = "replaced"
    elif table.created:
        done = "created"
    elif if_exists == "append":
        done = "appended to"
    else:
        done = "skipped existing table"
    facts = {
        "created": table.created,
        "rows": table.rows,
        "columns": _columns(table.schema),
        "bytes": table.nbytes,
    }
    _report(done, table, as_json, **facts)


@main.command(
    epilog="Example: rt-frames alter sales --rename qty=units --cast qty=int32 --url ./tables"
)
@_table
@_pairs("--rename", "OLD=NEW", "Rename a column.", "PATH=VALUE")
@_pairs("--cast", "PATH=DTYPE", "Change a column's type.")
@_pairs(
    "--nullable",
    "PATH=true|false",
    "Allow or forbid nulls.",
    "PATH=true or PATH=false",
    "true|false",
)
@click.option(
    "--lossy", is_flag=True, help="Allow casts that may change stored values."
)
@click.option(
    "--rewrite",
    is_flag=True,
    help="Do all of it in one commit, and each cast exactly, by replacing all rows.",
)
@click.option(
    "--dry-run", is_flag=True, help="Show what would be sent, and change nothing."
)
@_service
@_json
def alter(
    name: str,
    rename: Pairs,
    cast: Pairs,
    nullable: Pairs,
    lossy: bool,
    rewrite: bool,
    dry_run: bool,
    as_json: bool,
    **service: Any,
) -> None:
    """Change columns of table NAME.

    In one request, or in two if the engine does not take all in one. PATH is a column's
    name, or outer.inner for a field of a struct. DTYPE is a name such as int32,
    float64, string, date32, 'timestamp[us, tz=UTC]'.
    """
    from rt_frames._client import check_can_rewrite, check_plan, rewrite_columns

    if rewrite and lossy:
        raise click.UsageError(
            "--rewrite and --lossy exclude each other; give one of them"
        )
    plan = _make_plan(rename, cast, nullable)
    table = _connect(**service).table(name)
    if rewrite:
        check_can_rewrite(table)
    plan = _with_known_types(table, plan)
    requests = [plan] if rewrite else plan.requests()
    if dry_run and as_json:
        for request in requests:
            click.echo(json.dumps(request.to_json()))
    elif dry_run:
        click.echo(repr(plan))
    if not rewrite:
        check_plan(table, plan, lossy=lossy)
    if dry_run:
        return
    if rewrite:
        table = rewrite_columns(table, plan)
    else:
        table = _send(table, requests, is_told=not as_json)
    done = "rewrote" if rewrite else "altered"
    _report(done, table, as_json, requests=len(requests))


def _make_plan(rename: Pairs, cast: Pairs, nullable: Pairs) -> AlterationPlan:
    from rt_frames._schema.alterations import Alteration, AlterationPlan

    alterations = []
    for path in {**rename, **cast, **nullable}:
        allowed = nullable[path] == "true" if path in nullable else None
        try:
            alteration = Alteration(path, rename.get(path), cast.get(path), allowed)
        except ValueError as error:
            raise _usage_error(error, click.get_current_context()) from error
        alterations.append(alteration)
    if not alterations:
        raise click.UsageError("nothing to change; give --rename, --cast or --nullable")
    return AlterationPlan(alterations)


def _send(
    table: RemoteTable, requests: list[AlterationPlan], *, is_told: bool
) -> RemoteTable:
    """Send a plan's requests, and print each one that is done."""
    for number, request in enumerate(requests, start=1):
        paths = _paths(request)
        try:
            table = table.alter_columns(request)
        except errors.RemoteError:
            if number > 1:
                done = _paths(requests[0])
                text = f"half done: request 1 of 2, the cast of {done}, took effect; request 2, for {paths}, failed"
                click.echo(text, err=True)
            raise
        if len(requests) > 1 and is_told and not _is_quiet():
            click.echo(f"request {number} of {len(requests)} done: {paths}")
    return table


def _paths(plan: AlterationPlan) -> str:
    return ", ".join([alteration.path for alteration in plan])


def _with_known_types(table: RemoteTable, plan: AlterationPlan) -> AlterationPlan:
    """Return a plan with the columns' present types, if the service tells them."""
    from rt_frames._schema.alterations import AlterationPlan
    from rt_frames._schema.casts import list_kind_on_path
    from rt_frames._schema.data_type import iter_fields

    if table.schema is None:
        return plan
    known = {}
    for path, field, parents in iter_fields(table.schema):
        known[path] = {"before": field.type, "lists": list_kind_on_path(parents)}
    alterations = []
    for alteration in plan:
        path = alteration.path
        if path not in known:
            raise ValueError(
                f"table {table.name!r} has no column {path!r}; {did_you_mean(path, known)}"
            )
        alterations.append(dataclasses.replace(alteration, **known[path]))
    return AlterationPlan(alterations)


@main.command(epilog="Example: rt-frames serve ./tables --port 8765")
@click.argument("root", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="The address to listen on."
)
@click.option(
    "--port",
    default=0,
    show_default="a free one",
    type=click.IntRange(0, 65535),
    help="The port.",
)
@click.option(
    "--keep",
    metavar="HOURS",
    default=24,
    show_default=True,
    type=click.IntRange(0, 999_999),
    help="How many hours versions of a table that were replaced stay readable.",
)
def serve(root: Path, host: str, port: int, keep: int) -> None:
    """Serve the tables of folder ROOT over HTTP.

    The key is RT_FRAMES_API_KEY, or a random one that is printed. Each request is
    logged on standard error.
    """
    # nohup and a shell's & start processes that ignore a signal: it stays ignored, and
    # would not be if it was blocked
    ends = {
        number
        for number in (signal.SIGINT, signal.SIGTERM)
        if signal.getsignal(number) != signal.SIG_IGN
    }
    # in all threads; a handler would wait for the main thread
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    from rt_frames.local import LocalService

    if not _is_quiet():
        logging.getLogger("rt_frames.access").setLevel(logging.DEBUG)
    service = LocalService(
        root,
        host=host,
        port=port,
        api_key=os.environ.get("RT_FRAMES_API_KEY"),
        keep=datetime.timedelta(hours=keep),
    )
    _listen(service, f"{host}, port {port}")
    with service:
        _print_connection(service)
        way = "Ctrl-C" if signal.SIGINT in ends else f"kill {os.getpid()}"
        click.echo(f"serving {service.root}; stop with {way}", err=True)
        signal.sigwait(ends)
        for number in ends:
            # a second one ends the process at once
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ends)
    click.echo("stopped", err=True)


def _listen(service: LocalService, address: str) -> None:
    """Start a service. An address in use raises ValueError, with advice."""
    try:
        service.start()
    except OSError as error:
        if "No socket" not in str(error):
            raise
        reason = str(error).rpartition("] ")[2].rstrip(")").lower()
        raise ValueError(
            f"cannot listen on {address}: {reason}; give another --port or --host"
        ) from error


def _print_connection(service: LocalService) -> None:
    """Print the lines of shell that connect to a service."""
    # 0.0.0.0 and :: stand for all addresses of this machine; no client can call them
    url = service.url.replace("//0.0.0.0", "//127.0.0.1").replace("[::]", "[::1]")
    click.echo(f"export RT_FRAMES_URL={url}")
    if "RT_FRAMES_API_KEY" not in os.environ:
        click.echo(f"export RT_FRAMES_API_KEY={service.api_key}")
    # the service speaks both dialects; this one can describe and replace tables
    click.echo("export RT_FRAMES_DIALECT=lancedb")


@main.command(epilog="Example: rt-frames demo sales.csv --keep ./tables")
@click.argument(
    "path", metavar="[FILE]", required=False, type=click.Path(path_type=Path)
)
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the tables in this folder.",
)
@_files
def demo(path: Path | None, keep: Path | None, **options: Any) -> None:
    """Store a table, alter it, and check every value.

    On the embedded service, with FILE or a generated calendar.
    """
    require("local", "cheroot", "lance")
    from rt_frames.cli.demo import run

    with tempfile.TemporaryDirectory() as scratch:
        wrong = run(path, keep or Path(scratch) / "tables", _take_file_options(options))
    if wrong:
        raise click.ClickException(
            f"{len(wrong)} differences between frames and tables: {'; '.join(wrong)}"
        )
