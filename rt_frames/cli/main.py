"""The CLI's group, and the commands that change or serve tables.

The connection comes from options or the environment. The API key comes only from the
environment or a file, as every user of the machine can read a command line. Exit codes:
0 done, 1 refused or failed, 2 wrong usage, 130 interrupted. Commands import libraries
when they run, to keep ``--help`` and shell completion fast.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import logging
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rt_frames import errors
from rt_frames._extras import require
from rt_frames._names import check_column_names, did_you_mean, duplicates
from rt_frames._text import count
from rt_frames._version import __version__
from rt_frames.cli import reading
from rt_frames.cli.command import VERBOSITY, Command, is_quiet, usage_error
from rt_frames.cli.options import (
    Pairs,
    check_name,
    connect,
    json_option,
    pairs_option,
    read_options,
    service_options,
    table_argument,
    take_file_options,
)
from rt_frames.cli.report import columns_as_json, print_columns, print_json, report

if TYPE_CHECKING:
    import pyarrow as pa

    from rt_frames._client import RemoteTable
    from rt_frames._schema.alterations import AlterationPlan
    from rt_frames.local import LocalService


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 130 interrupted.",
)
@click.version_option(__version__, prog_name="rt-frames")
def main(**_verbosity: object) -> None:
    """Store files as remote tables, read them back, and change rows and columns."""


main.command_class = Command
main.params += VERBOSITY
main.add_command(reading.tables)
main.add_command(reading.show)
main.add_command(reading.export)


@main.command(epilog="Example: rt-frames drop sales --yes --url ./tables")
@table_argument
@click.option("--yes", is_flag=True, help="Confirm; the rows cannot be recovered.")
@service_options
def drop(name: str, yes: bool, **service: Any) -> None:
    """Drop table NAME and all its rows."""
    if not yes:
        raise click.UsageError(
            f"this would drop table {name!r} and all its rows for good; nothing was "
            "changed; pass --yes to confirm"
        )
    table = connect(**service).table(name)
    table.drop()
    if not is_quiet():
        click.echo(f"dropped {name}, at {table.client}")


@main.command(
    epilog="Example: rt-frames delete sales --where \"zip = '01067'\" --yes --url ./tables"
)
@table_argument
@click.option(
    "--where",
    metavar="SQL",
    required=True,
    help="Delete rows that match this condition, such as \"day < date '2024-03-01'\".",
)
@click.option(
    "--yes", is_flag=True, help="Confirm; without --yes, the rows are only counted."
)
@service_options
@json_option
def delete(name: str, where: str, yes: bool, as_json: bool, **service: Any) -> None:
    """Delete the rows of table NAME that match a condition, in one commit."""
    table = connect(**service).table(name)
    if not yes:
        rows = count(table.count(where), "row")
        raise click.UsageError(
            f"this would delete {rows} of table {name!r}; nothing was changed; "
            "pass --yes to confirm"
        )
    deleted = table.delete(where)
    if as_json:
        print_json(table, deleted=deleted)
    elif not is_quiet():
        rows = "rows" if deleted is None else count(deleted, "row")
        click.echo(f"deleted {rows} of {name}, at {table.client}")


@main.command(
    epilog="Example: rt-frames create sales 'data/*.csv' --dtype zip=string --url ./tables"
)
@click.argument("name", callback=check_name)
@click.argument(
    "paths", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--if-exists",
    type=click.Choice(["fail", "skip", "replace", "append", "upsert"]),
    default="fail",
    show_default=True,
    help="If the table exists: 'skip' leaves it as it is, 'replace' replaces all its rows, "
    "'append' adds rows, 'upsert' replaces rows with the same key and adds the others.",
)
@click.option(
    "--on",
    multiple=True,
    metavar="NAME",
    help="Key column of an upsert, by its name in the table. Repeatable.",
)
@click.option(
    "--add-columns",
    is_flag=True,
    help="With append or upsert, add the columns that the table lacks.",
)
@pairs_option("--rename", "OLD=NEW", "Rename a column of the files.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print the columns and their types, and send nothing.",
)
@read_options
@service_options
@json_option
def create(
    name: str,
    paths: tuple[Path, ...],
    if_exists: Any,
    on: tuple[str, ...],
    add_columns: bool,
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Create table NAME from files, or add their rows to it.

    FILE is Parquet, CSV, TSV, NDJSON, JSON or Arrow, also compressed (.csv.gz), or '-'
    for standard input, which needs --format. Several files, or a glob, make one table.
    Rows are streamed, except from .json, so files may be larger than memory.

    Text files get the table's types with --if-exists append or upsert. Other columns
    get types that are printed, and inferred from the first 20,000 rows of each CSV
    file, and from all of JSON. A cell that does not fit its type is refused with its
    row.
    """
    from rt_frames._frames.any_frame import open_source
    from rt_frames.cli.files import open_files

    _check_options(if_exists, on, add_columns)
    file_options = take_file_options(options)
    client = None
    existing = None
    if if_exists in ("append", "upsert"):
        client = connect(**options, make_folder=not dry_run)
        with contextlib.suppress(errors.TableNotFoundError):
            existing = client.table(name).schema
    source, shows_types = open_files(paths, file_options._replace(table=existing))
    with contextlib.closing(source):
        opened = open_source(source, table=existing, add_columns=add_columns, keys=on)
        if dry_run or (shows_types and not as_json):
            _print_types(name, opened.schema, as_json)
        if dry_run:
            return
        if client is None:
            client = connect(**options, make_folder=True)
        is_watched = sys.stderr is not None and sys.stderr.isatty()
        # create_table() is typed for frames, but also takes a source
        data: Any = source
        table = client.create_table(
            name,
            data,
            if_exists=if_exists,
            on=on or None,
            add_columns=add_columns,
            progress=is_watched and not is_quiet(),
        )
    _report_created(table, if_exists, as_json)


def _check_options(if_exists: str, on: tuple[str, ...], add_columns: bool) -> None:
    if if_exists == "upsert" and not on:
        raise click.UsageError("--if-exists upsert needs a key column; pass --on NAME")
    if repeated := duplicates(on):
        raise click.UsageError(f"--on: {repeated[0]!r} is passed twice; pass it once")
    if on and if_exists != "upsert":
        raise click.UsageError("--on: only for --if-exists upsert; leave it out")
    if add_columns and if_exists not in ("append", "upsert"):
        raise click.UsageError(
            "--add-columns: only for --if-exists append and upsert; leave it out"
        )


def _print_types(name: str, schema: pa.Schema, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"table": name, "columns": columns_as_json(schema)}))
    elif not is_quiet():
        print_columns(f"{name}: {count(len(schema), 'column')}", schema)


def _report_created(table: RemoteTable, if_exists: str, as_json: bool) -> None:
    if if_exists == "replace" and (table.version or 1) > 1:
        action = "replaced"
    elif table.created:
        action = "created"
    elif if_exists == "append":
        action = "appended to"
    elif if_exists == "upsert":
        action = "upserted into"
    else:
        action = "skipped existing table"
    facts = {
        "created": table.created,
        "rows": table.rows,
        "columns": columns_as_json(table.schema),
        "bytes": table.nbytes,
    }
    if if_exists == "upsert":
        facts["updated"] = table.updated
        facts["inserted"] = table.inserted
    report(action, table, as_json, **facts)


@main.command(
    epilog="Example: rt-frames alter sales --rename qty=units --cast qty=int32 --url ./tables"
)
@table_argument
@pairs_option("--rename", "OLD=NEW", "Rename a column.", "PATH=VALUE")
@pairs_option("--cast", "PATH=DTYPE", "Change a column's type.")
@pairs_option(
    "--nullable",
    "PATH=true|false",
    "Allow or forbid nulls.",
    "PATH=true or PATH=false",
    "true|false",
)
@pairs_option("--add-columns", "NAME=DTYPE", "Add a column of nulls.")
@click.option(
    "--drop-columns",
    multiple=True,
    metavar="NAME",
    help="Drop a column and its values. Repeatable.",
)
@click.option(
    "--lossy", is_flag=True, help="Allow casts that may change stored values."
)
@click.option(
    "--rewrite",
    is_flag=True,
    help="Do all of it in one commit, by reading, casting exactly and replacing all rows.",
)
@click.option("--dry-run", is_flag=True, help="Print the changes, and send none.")
@service_options
@json_option
def alter(
    name: str,
    rename: Pairs,
    cast: Pairs,
    nullable: Pairs,
    add_columns: Pairs,
    drop_columns: tuple[str, ...],
    lossy: bool,
    rewrite: bool,
    dry_run: bool,
    as_json: bool,
    **service: Any,
) -> None:
    """Rename, cast, add or drop columns of table NAME.

    Changes go in one request, or in two if the engine refuses them together. Added and
    dropped columns follow, in one request each. PATH is the name of a column, or
    outer.inner for a field of a struct. DTYPE is a name such as int32, float64, string,
    date32, 'timestamp[us, tz=UTC]'.
    """
    from rt_frames._client import (
        check_can_alter,
        check_can_rewrite,
        check_plan,
        rewrite_columns,
    )

    if rewrite and lossy:
        raise click.UsageError(
            "--rewrite and --lossy cannot be combined: a rewrite casts exactly; pass one"
        )
    plan = _make_plan(rename, cast, nullable, add_columns, drop_columns)
    table = connect(**service).table(name)
    if rewrite:
        check_can_rewrite(table)
    else:
        check_can_alter(table, plan)
    plan = _with_known_types(table, plan)
    requests = [plan] if rewrite else plan.requests()
    if dry_run:
        _print_plan(plan, requests, as_json)
    if not rewrite:
        check_plan(table, plan, lossy=lossy)
    if dry_run:
        return
    if rewrite:
        table = rewrite_columns(table, plan)
        report("rewrote", table, as_json, requests=1)
    else:
        table = _send(table, requests, is_shown=not as_json and not is_quiet())
        # the handle of the last request knows only its own changes
        table = dataclasses.replace(table, _changed=plan)
        report("altered", table, as_json, requests=len(requests))


def _make_plan(
    rename: Pairs,
    cast: Pairs,
    nullable: Pairs,
    add_columns: Pairs,
    drop_columns: tuple[str, ...],
) -> AlterationPlan:
    from rt_frames._schema.alterations import Alteration, AlterationPlan

    changed = {**rename, **cast, **nullable}
    alterations = []
    for path in changed:
        may_be_null = None
        if path in nullable:
            may_be_null = nullable[path] == "true"
        try:
            alteration = Alteration(path, rename.get(path), cast.get(path), may_be_null)
        except ValueError as error:
            raise usage_error(error) from error
        alterations.append(alteration)
    added = _new_columns(add_columns)
    _check_drops(drop_columns, {**changed, **add_columns})
    plan = AlterationPlan(alterations, added=added, dropped=drop_columns)
    if not plan:
        raise click.UsageError(
            "nothing to change; pass --rename, --cast, --nullable, --add-columns or "
            "--drop-columns"
        )
    return plan


def _new_columns(add_columns: Pairs) -> pa.Schema:
    import pyarrow as pa

    from rt_frames._schema.any_dtype import to_arrow_type
    from rt_frames._schema.compare import new_columns
    from rt_frames._schema.portable import to_portable

    if not add_columns:
        return pa.schema([])
    fields = []
    try:
        check_column_names([*add_columns])
        for name, dtype in add_columns.items():
            arrow = to_arrow_type(dtype, name)
            fields.append(pa.field(name, to_portable(arrow, name)))
        return new_columns(fields, ())
    except (ValueError, errors.UnsupportedTypeError) as error:
        raise usage_error(error) from error


def _check_drops(names: tuple[str, ...], changed: Pairs) -> None:
    for name in names:
        if "." in name:
            raise click.UsageError(
                f"--drop-columns: {name!r} is a nested field; only whole columns can be "
                "dropped"
            )
        if names.count(name) > 1:
            raise click.UsageError(
                f"--drop-columns: {name!r} is passed twice; pass it once"
            )
        if any(path.partition(".")[0] == name for path in changed):
            raise click.UsageError(
                f"--drop-columns: {name!r} is also changed or added; choose one"
            )


def _print_plan(
    plan: AlterationPlan, requests: list[AlterationPlan], as_json: bool
) -> None:
    if as_json:
        for request in requests:
            click.echo(json.dumps(_to_json(request)))
    else:
        click.echo(repr(plan))


def _to_json(plan: AlterationPlan) -> dict[str, Any]:
    """Return the changes of a plan by kind, for ``--dry-run --json``."""
    body: dict[str, Any] = {}
    if len(plan):
        body["alterations"] = [alteration.to_json() for alteration in plan]
    if len(plan.added):
        body["add_columns"] = columns_as_json(plan.added)
    if plan.dropped:
        body["drop_columns"] = [*plan.dropped]
    return body


def _send(
    table: RemoteTable, requests: list[AlterationPlan], *, is_shown: bool
) -> RemoteTable:
    """Send a plan's requests. If ``is_shown``, print the columns of each when done.

    An error after the first request prints which requests took effect.
    """
    for number, request in enumerate(requests, start=1):
        try:
            table = table.alter_columns(request)
        except (errors.RemoteError, ValueError):
            if number > 1:
                _print_half_done(requests, number)
            raise
        if is_shown and len(requests) > 1:
            click.echo(f"request {number} of {len(requests)} done: {_paths(request)}")
    return table


def _print_half_done(requests: list[AlterationPlan], failed: int) -> None:
    last = failed - 1
    numbers = "request 1" if last == 1 else f"requests 1 to {last}"
    done = ", ".join(map(_paths, requests[:last]))
    click.echo(
        f"half done: {numbers} of {len(requests)}, for {done}, took effect; "
        f"request {failed}, for {_paths(requests[last])}, failed",
        err=True,
    )


def _paths(plan: AlterationPlan) -> str:
    changed = [alteration.path for alteration in plan]
    return ", ".join([*changed, *plan.added.names, *plan.dropped])


def _with_known_types(table: RemoteTable, plan: AlterationPlan) -> AlterationPlan:
    """Return a plan with the columns' present types, if the service describes them.

    Raises ValueError if the table lacks a column to change, or already has a column to
    add.
    """
    from rt_frames._schema.alterations import AlterationPlan
    from rt_frames._schema.casts import list_kind_on_path
    from rt_frames._schema.compare import new_columns
    from rt_frames._schema.data_type import iter_fields

    if table.schema is None:
        return plan
    columns = {}
    for path, field, parents in iter_fields(table.schema):
        columns[path] = {"before": field.type, "lists": list_kind_on_path(parents)}
    changed = [alteration.path for alteration in plan]
    for path in [*changed, *plan.dropped]:
        if path not in columns:
            raise ValueError(
                f"table {table.name!r} has no column {path!r}; {did_you_mean(path, columns)}"
            )
    alterations = []
    renames = {}
    for alteration in plan:
        alterations.append(dataclasses.replace(alteration, **columns[alteration.path]))
        renames[alteration.path] = alteration.rename
    names = [renames.get(name) or name for name in table.schema.names]
    for name in plan.added.names:
        if name in names:
            raise ValueError(
                f"table {table.name!r} already has column {name!r}; choose another name"
            )
    added = new_columns(plan.added, names)
    return AlterationPlan(alterations, added=added, dropped=plan.dropped)


@main.command(epilog="Example: rt-frames serve ./tables --port 8765")
@click.argument("root", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on."
)
@click.option(
    "--port",
    default=0,
    show_default="a free one",
    type=click.IntRange(0, 65535),
    help="Port to listen on.",
)
@click.option(
    "--keep",
    metavar="HOURS",
    default=24,
    show_default=True,
    type=click.IntRange(0, 999_999),
    help="Hours for which a replaced version of a table stays readable.",
)
def serve(root: Path, host: str, port: int, keep: int) -> None:
    """Serve the tables of folder ROOT over HTTP.

    The API key is RT_FRAMES_API_KEY, or a random one, which is printed. Each request is
    logged on standard error.
    """
    require("local")
    # require() has refused Windows; type checkers need to see it
    if sys.platform == "win32":
        return
    # nohup and a shell's & make a process ignore a signal; if it were blocked,
    # sigwait() would receive it
    stop_signals = set()
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            stop_signals.add(number)
    # blocked in all threads, for sigwait(); a Python handler runs only in the main one
    signal.pthread_sigmask(signal.SIG_BLOCK, stop_signals)
    from rt_frames.local import LocalService

    if not is_quiet():
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
        way = "Ctrl-C" if signal.SIGINT in stop_signals else f"kill {os.getpid()}"
        click.echo(f"serving {service.root}; stop with {way}", err=True)
        signal.sigwait(stop_signals)
        for number in stop_signals:
            # a second signal ends the process at once
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, stop_signals)
    click.echo("stopped", err=True)


def _listen(service: LocalService, address: str) -> None:
    """Start a service. Raises ValueError if it cannot listen on the address."""
    try:
        service.start()
    except OSError as error:
        if "No socket" not in str(error):
            raise
        reason = str(error).rpartition("] ")[2].rstrip(")").lower()
        raise ValueError(
            f"cannot listen on {address}: {reason}; pass another --port or --host"
        ) from error


def _print_connection(service: LocalService) -> None:
    """Print the lines of shell that connect to a service."""
    # 0.0.0.0 and :: listen on all addresses; clients need the address of one
    url = service.url.replace("//0.0.0.0", "//127.0.0.1").replace("[::]", "[::1]")
    click.echo(f"export RT_FRAMES_URL={url}")
    if "RT_FRAMES_API_KEY" not in os.environ:
        click.echo(f"export RT_FRAMES_API_KEY={service.api_key}")
    # the service supports both dialects; only this one describes and replaces tables
    click.echo("export RT_FRAMES_DIALECT=lancedb")


@main.command(epilog="Example: rt-frames demo sales.csv --keep ./tables")
@click.argument(
    "path", metavar="[FILE]", required=False, type=click.Path(path_type=Path)
)
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the tables, in this folder.",
)
@read_options
def demo(path: Path | None, keep: Path | None, **options: Any) -> None:
    """Store a table, alter it, and compare every value.

    Uses the embedded service, and FILE or a generated calendar.
    """
    require("local")
    from rt_frames.cli.demo import run

    with tempfile.TemporaryDirectory() as scratch:
        folder = keep or Path(scratch) / "tables"
        differences = run(path, folder, take_file_options(options))
    if differences:
        raise click.ClickException(
            f"{count(len(differences), 'difference')} between frames and tables: "
            f"{'; '.join(differences)}"
        )
