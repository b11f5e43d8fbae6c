"""The base class of all commands: log level, errors, Ctrl-C and exit codes."""

from __future__ import annotations

import functools
import io
import logging
import sys
import traceback
from typing import Any

import click

from rt_frames import errors
from rt_frames._text import make_printable
from rt_frames._threads import end_at_next_interrupt


def printable_lines(text: str) -> str:
    """Escape the non-printable characters of each line."""
    return "\n".join(map(make_printable, text.split("\n")))


VERBOSITY = [
    click.Option(
        ["-v", "--verbose"],
        count=True,
        help="Print the log; -vv also prints every request.",
    ),
    click.Option(
        ["-q", "--quiet"], is_flag=True, help="Print only results and errors."
    ),
]


class Command(click.Command):
    """A command with -v and -q, whose errors are a few lines instead of a traceback."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.params += VERBOSITY

    def invoke(self, ctx: click.Context) -> None:
        """Run the command. Errors and Ctrl-C become messages and exit codes."""
        verbose = _take_verbosity(ctx)
        # a character that the console's encoding lacks is escaped, not an error
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            super().invoke(ctx)
            # output is complete: from here on Ctrl-C ends the process at once, instead
            # of raising during shutdown
            end_at_next_interrupt()
            # close the client here, where Ctrl-C is handled
            ctx.close()
        except BrokenPipeError:
            # the reader of a pipe has closed it; click exits quietly
            raise
        except (
            errors.RemoteError,
            ValueError,
            TypeError,
            OSError,
            ImportError,
        ) as error:
            if verbose:
                click.echo(printable_lines(traceback.format_exc()), err=True)
            raise click.ClickException(printable_lines(str(error))) from error
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(130)
        finally:
            end_at_next_interrupt()


def _take_verbosity(ctx: click.Context) -> int:
    """Start logging at the level of -v and -q. Return how often -v was passed.

    Both may also precede the command, as in ``rt-frames -v show``.
    """
    group = ctx.parent.params if ctx.parent else {}
    verbose: int = ctx.params.pop("verbose") or group.get("verbose", 0)
    quiet = ctx.params.pop("quiet") or group.get("quiet", False)
    ctx.obj = quiet and not verbose
    if verbose > 1:
        level = logging.DEBUG
    elif verbose:
        level = logging.INFO
    elif quiet:
        level = logging.ERROR
    else:
        level = logging.WARNING
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


def is_quiet() -> bool:
    """Return whether -q was passed, without -v."""
    return bool(click.get_current_context().obj)
