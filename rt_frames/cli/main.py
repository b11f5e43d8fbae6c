"""The CLI's group, and ``serve``.

The connection comes from options or the environment. The API key comes only from the
environment or a file, as every user of the machine can read a command line. Exit codes:
0 done, 1 refused or failed, 2 wrong usage, 130 interrupted. Commands import libraries
when they run, to keep ``--help`` and shell completion fast.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rt_frames._extras import require_local
from rt_frames._version import __version__
from rt_frames.cli.command import VERBOSITY, Command, is_quiet
from rt_frames.cli.demo import demo
from rt_frames.cli.tables import compact, drop, history, restore, show, tables

if TYPE_CHECKING:
    from rt_frames.local import LocalService


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 130 interrupted.",
)
@click.version_option(__version__, prog_name="rt-frames")
def main(**_verbosity: object) -> None:
    """Look at remote tables, restore or drop them, and serve a folder of tables."""


main.command_class = Command
main.params += VERBOSITY
for command in (tables, show, history, restore, compact, drop, demo):
    main.add_command(command)


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
def serve(root: Path, host: str, port: int) -> None:
    """Serve the tables of folder ROOT over HTTP, to try requests on this machine.

    The API key is RT_FRAMES_API_KEY, or a random one, which is printed. Each request is
    logged on standard error.
    """
    require_local()
    # require_local() has refused Windows; type checkers need to see it
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
