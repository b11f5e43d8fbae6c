"""The console script: ``rt-frames demo | serve | tables | create | alter``.

The connection comes from options or the environment; the key only from the environment or a file, since a command
line can be read by everybody on the machine. Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 130 interrupted.
What a command needs is imported when it runs, so that ``--help`` and the shell's completion are quick.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rt_frames import errors
from rt_frames._version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

    from rt_frames._client import Client
    from rt_frames._schema.alterations import AlterationPlan


class _Reporting(click.Group):
    """Turns what can fail into one line on standard error and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # whoever read our output has had enough; click leaves quietly
            raise
        except _failures() as error:
            raise click.ClickException(str(error)) from error
        except KeyboardInterrupt:
            click.echo("interrupted; a table is created whole or not at all", err=True)
            ctx.exit(130)


def _failures() -> tuple[type[Exception], ...]:
    polars = sys.modules.get("polars")  # the errors of a library that was not loaded cannot have been raised
    return errors.RemoteError, ValueError, TypeError, OSError, *([polars.exceptions.PolarsError] if polars else [])


@click.group(
    cls=_Reporting,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 130 interrupted.",
)
@click.version_option(__version__, prog_name="rt-frames")
def main() -> None:
    """Make files of tables remote tables, and change their columns."""


def _with_service(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say which service is meant; the command is given ``connect``, which opens it."""

    @click.option("--url", help="The service's address, or a folder. Default: RT_FRAMES_URL.")
    @click.option(
        "--key-file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="A file that holds the API key. Default: RT_FRAMES_API_KEY.",
    )
    @click.option(
        "--dialect",
        type=click.Choice(["documented", "lancedb"]),
        help="The addresses that the service knows. Default: RT_FRAMES_DIALECT, or documented.",
    )
    @click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
    @functools.wraps(command)
    def run(url: str | None, key_file: Path | None, dialect: Any, **options: Any) -> None:
        def connect() -> Client:
            from rt_frames import _api

            key = key_file.read_text().strip() if key_file is not None else None
            return _api.connect(url, api_key=key, dialect=dialect, default=False)

        command(connect=connect, **options)

    return run


@main.command()
@_with_service
def tables(connect: Callable[[], Client], as_json: bool) -> None:
    """List the tables."""
    names = connect().list_tables()
    click.echo(json.dumps(names) if as_json else "\n".join(names))


@main.command()
@click.argument("name")
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--if-exists", type=click.Choice(["fail", "skip", "replace"]), default="fail", show_default=True)
@_with_service
def create(name: str, paths: tuple[Path, ...], if_exists: Any, connect: Callable[[], Client], as_json: bool) -> None:
    """Create table NAME from files: Parquet, CSV, NDJSON or Arrow.

    Several files, or a glob such as 'data/*.parquet', make one table. They are streamed, so that they may be larger
    than memory; a progress bar is shown on standard error where that is a terminal.
    """
    from rt_frames.cli.files import scan_all

    table = connect().create_table(name, scan_all(paths), if_exists=if_exists)
    facts = {"table": name, "created": table.created, "bytes": table.nbytes, "version": table.version}
    click.echo(json.dumps(facts) if as_json else repr(table))


@main.command()
@click.argument("name")
@click.option("--rename", multiple=True, metavar="OLD=NEW", help="Rename a column.")
@click.option("--cast", multiple=True, metavar="PATH=DTYPE", help="Change a column's type.")
@click.option("--nullable", multiple=True, metavar="PATH=true|false", help="Allow or forbid nulls.")
@click.option("--dry-run", is_flag=True, help="Show what would be sent, and send nothing.")
@_with_service
def alter(name: str, dry_run: bool, connect: Callable[[], Client], as_json: bool, **changes: tuple[str, ...]) -> None:
    """Change columns of table NAME, all in one request.

    PATH is a column's name, or outer.inner for a field of a struct. DTYPE is what pandas, Polars or Arrow call it:
    int32, float64, string, date32, 'timestamp[us, tz=UTC]'.
    """
    plan = _parse_changes(**changes)
    if dry_run:
        click.echo(json.dumps(plan.to_json()) if as_json else repr(plan))
        return
    table = connect().alter_columns(name, plan)
    click.echo(json.dumps({"table": name, "version": table.version}) if as_json else repr(table))


def _parse_changes(rename: tuple[str, ...], cast: tuple[str, ...], nullable: tuple[str, ...]) -> AlterationPlan:
    from rt_frames._schema.alterations import Alteration, AlterationPlan

    changes: dict[str, dict[str, Any]] = {}
    for field, pairs in {"rename": rename, "data_type": cast, "nullable": nullable}.items():
        for pair in pairs:
            path, equals, value = pair.partition("=")
            if not equals or not path:
                raise click.UsageError(f"{pair!r}: expected PATH=VALUE")
            if field == "nullable" and value not in ("true", "false"):
                raise click.UsageError(f"{pair!r}: expected PATH=true or PATH=false")
            change = changes.setdefault(path, {})
            if field in change:
                raise click.UsageError(f"{pair!r}: the same change of {path!r} is given twice")
            change[field] = value == "true" if field == "nullable" else value
    if not changes:
        raise click.UsageError("nothing to change; give --rename, --cast or --nullable")
    return AlterationPlan([Alteration(path, **change) for path, change in changes.items()])


@main.command()
@click.argument("root", type=click.Path(file_okay=False, path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=0, show_default="a free one", help="The port to listen on.")
def serve(root: Path, host: str, port: int) -> None:
    """Serve the tables of folder ROOT over HTTP, with the key of RT_FRAMES_API_KEY or a random one."""
    from rt_frames.local import LocalService

    key = os.environ.get("RT_FRAMES_API_KEY")
    with LocalService(root, host=host, port=port, api_key=key) as service:
        click.echo(f"export RT_FRAMES_URL={service.url}")
        if key is None:
            click.echo(f"export RT_FRAMES_API_KEY={service.api_key}")
        click.echo(f"serving {service.root}; stop with Ctrl-C", err=True)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            click.echo("stopped", err=True)


@main.command()
@click.argument("path", metavar="[FILE]", required=False, type=click.Path(path_type=Path))
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path), help="Keep the tables in this folder.")
def demo(path: Path | None, keep: Path | None) -> None:
    """Do the main job with FILE, or with a calendar, on the embedded service, and check every stored value."""
    from rt_frames.cli.demo import calendar, run
    from rt_frames.cli.files import read_pandas, read_polars

    frames: dict[str, Any] = calendar() if path is None else {"pandas": read_pandas(path), "polars": read_polars(path)}
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
