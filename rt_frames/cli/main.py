"""The console script: ``rt-frames demo | serve | tables | create | alter``.

The connection comes from options or the environment; the key only from the environment or a file, since a command
line can be read by everybody on the machine. Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rt_frames import _api, errors
from rt_frames._schema.alterations import Alteration, AlterationPlan
from rt_frames._version import __version__
from rt_frames.cli import demo as demo_job
from rt_frames.cli.files import read_pandas, read_polars, scan_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rt_frames._client import Client

FAILURES = (errors.RemoteError, ValueError, TypeError, OSError)


class _Reporting(click.Group):
    """Turns what can fail into one line on standard error and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # whoever read our output has had enough; click leaves quietly
            raise
        except FAILURES as error:
            raise click.ClickException(str(error)) from error
        except KeyboardInterrupt:
            click.echo("interrupted; a table is created whole or not at all", err=True)
            ctx.exit(130)


@click.group(
    cls=_Reporting,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 130 interrupted.",
)
@click.version_option(__version__, prog_name="rt-frames")
def main() -> None:
    """Make files of tables remote tables, and change their columns."""


def _connected(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say which service is meant."""
    options = (
        click.option("--url", help="The service's address, or a folder. Default: RT_FRAMES_URL."),
        click.option("--key-file", type=click.Path(exists=True, dir_okay=False, path_type=Path),
                     help="A file that holds the API key. Default: RT_FRAMES_API_KEY."),
        click.option("--json", "as_json", is_flag=True, help="Print JSON for machines."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def _client(url: str | None, key_file: Path | None) -> Client:
    key = key_file.read_text().strip() if key_file is not None else None
    return _api.connect(url, api_key=key, default=False)


@main.command()
@_connected
def tables(url: str | None, key_file: Path | None, as_json: bool) -> None:
    """List the tables."""
    names = _client(url, key_file).list_tables()
    click.echo(json.dumps(names) if as_json else "\n".join(names))


@main.command()
@click.argument("name")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--if-exists", type=click.Choice(["fail", "skip"]), default="fail", show_default=True)
@_connected
def create(
    name: str, files: tuple[Path, ...], if_exists: Any, url: str | None, key_file: Path | None, as_json: bool
) -> None:
    """Create table NAME from files: Parquet, CSV, NDJSON or Arrow.

    Several files, or a glob such as 'data/*.parquet', make one table. They are streamed, so that they may be larger
    than memory; a progress bar is shown on standard error where that is a terminal.
    """
    client, data = _client(url, key_file), scan_all(files)
    table = client.create_table(name, data, if_exists=if_exists)
    facts = {"table": name, "created": table.created, "bytes": table.nbytes, "version": table.version}
    click.echo(json.dumps(facts) if as_json else repr(table))


@main.command()
@click.argument("name")
@click.option("--rename", multiple=True, metavar="OLD=NEW", help="Rename a column.")
@click.option("--cast", multiple=True, metavar="PATH=DTYPE", help="Change a column's type.")
@click.option("--nullable", multiple=True, metavar="PATH=true|false", help="Allow or forbid nulls.")
@click.option("--dry-run", is_flag=True, help="Show what would be sent, and send nothing.")
@_connected
def alter(
    name: str,
    rename: tuple[str, ...],
    cast: tuple[str, ...],
    nullable: tuple[str, ...],
    dry_run: bool,
    url: str | None,
    key_file: Path | None,
    as_json: bool,
) -> None:
    """Change columns of table NAME, all in one request.

    PATH is a column's name, or outer.inner for a field of a struct. DTYPE is what pandas, Polars or Arrow call it:
    int32, float64, string, date32, 'timestamp[us, tz=UTC]'.
    """
    plan = AlterationPlan(_alterations(rename, cast, nullable))
    if not plan:
        raise click.UsageError("nothing to change; give --rename, --cast or --nullable")
    if dry_run:
        click.echo(json.dumps(plan.to_json()) if as_json else repr(plan))
        return
    table = _client(url, key_file).alter_columns(name, plan)
    click.echo(json.dumps({"table": name, "version": table.version}) if as_json else repr(table))


def _alterations(rename: tuple[str, ...], cast: tuple[str, ...], nullable: tuple[str, ...]) -> Iterator[Alteration]:
    changes: dict[str, dict[str, Any]] = {}
    for option, pairs in (("rename", rename), ("data_type", cast), ("nullable", nullable)):
        for pair in pairs:
            path, equals, value = pair.partition("=")
            if not equals or not path:
                raise click.UsageError(f"{pair!r}: expected PATH=VALUE")
            if option == "nullable" and value not in ("true", "false"):
                raise click.UsageError(f"{pair!r}: expected PATH=true or PATH=false")
            changes.setdefault(path, {})[option] = value == "true" if option == "nullable" else value
    return (Alteration(path, **change) for path, change in changes.items())


@main.command()
@click.argument("root", type=click.Path(file_okay=False, path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=0, show_default="a free one", help="The port to listen on.")
def serve(root: Path, host: str, port: int) -> None:
    """Serve the tables of folder ROOT over HTTP, with the key of RT_FRAMES_API_KEY or a random one."""
    from rt_frames.local import LocalService

    given = os.environ.get("RT_FRAMES_API_KEY")
    with LocalService(root, host=host, port=port, api_key=given) as service:
        click.echo(f"export RT_FRAMES_URL={service.url}")
        if given is None:
            click.echo(f"export RT_FRAMES_API_KEY={service.api_key}")
        click.echo(f"serving {service.root}; stop with Ctrl-C", err=True)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            click.echo("stopped", err=True)


@main.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path), help="Keep the tables in this folder.")
def demo(file: Path | None, keep: Path | None) -> None:
    """Do the main job with FILE, or with a calendar, on the embedded service, and check every stored value."""
    name = "calendar" if file is None else "".join(c if c.isalnum() and c.isascii() else "_" for c in file.stem)
    with tempfile.TemporaryDirectory() as scratch:
        folder = keep if keep is not None else Path(scratch) / "tables"
        frames = (
            (demo_job.calendar_pandas(), demo_job.calendar_polars())
            if file is None
            else (read_pandas(file), read_polars(file))
        )
        wrong = [
            difference
            for library, frame in zip(("pandas", "polars"), frames, strict=True)
            for difference in _show(library, frame, f"{name}_{library}", folder)
        ]
    if wrong:
        raise click.ClickException(f"{len(wrong)} differences between frames and tables: {'; '.join(wrong)}")


def _show(library: str, frame: Any, name: str, folder: Path) -> list[str]:
    """Print each step of the demo beside what came back, and give the differences that its last step found."""
    click.secho(f"\n{library}: {frame.shape[0]:,} rows, {frame.shape[1]} columns", bold=True)
    result: Any = []
    for line, result in demo_job.run(frame, name, folder):
        click.secho(f">>> {line}", fg="cyan")
        if not isinstance(result, list) or not line.startswith("lance"):
            click.echo(str(result))
    click.echo("every value read back with lance equals the frame's" if not result else "\n".join(result))
    return [f"{name}: {difference}" for difference in result]
