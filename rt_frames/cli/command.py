"""The base class of all commands: log level, errors, Ctrl-C and exit codes."""

from __future__ import annotations

import functools
import io
import itertools
import logging
import shlex
import sys
import traceback
import warnings
from typing import Any

import click

from rt_frames import errors
from rt_frames._text import Message, join_hint, make_printable
from rt_frames._threads import end_at_next_interrupt

# parameter of the Python functions → name of the command's option
_CLI_NAMES = {"dtypes": "dtype", "api_key": "key_file", "target": "url"}
# of an error message without -v
MAX_LINES = 12
_NO_SERVICE = (
    "pass --url with an address or a folder such as ./NAME, or set RT_FRAMES_URL (and "
    "RT_FRAMES_API_KEY)"
)
_OUTCOME_UNKNOWN = (
    "the outcome is unknown: each request takes effect whole or not at all; check with "
    "rt-frames tables and rt-frames show"
)


def _spell_for_shell(error: Any, command: click.Command) -> str:
    """Return an error or warning as text, with a hint that names the CLI's options.

    A hint is dropped if the command lacks its options.
    """
    message = error.args[0] if error.args else None
    if not isinstance(message, Message):
        return printable_lines(str(error))
    lines = [_spell_message(line, command) for line in message.lines or [message]]
    return printable_lines("\n".join(lines))


def _spell_message(message: Message, command: click.Command) -> str:
    options = {}
    for parameter, value in message.options.items():
        options[_CLI_NAMES.get(parameter, parameter)] = value
    if not options or not options.keys() <= {option.name for option in command.params}:
        return message.text
    # hints quote further values of an option as Python does
    hint = message.hint.replace('"', "")
    if "url" in options:
        hint = _NO_SERVICE
    spelled = itertools.starmap(_spell_option, options.items())
    return join_hint(message.text, hint, " ".join(spelled))


def usage_error(error: Exception) -> click.UsageError:
    """Turn an error into a click.UsageError, which exits with 2."""
    command = click.get_current_context().command
    return click.UsageError(_spell_for_shell(error, command))


def printable_lines(text: str) -> str:
    """Escape the non-printable characters of each line."""
    return "\n".join(map(make_printable, text.split("\n")))


def _notes_of(error: BaseException) -> list[str]:
    """Return an error's notes: what took effect in spite of it."""
    return [printable_lines(note) for note in getattr(error, "__notes__", ())]


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

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Errors and Ctrl-C become messages and exit codes."""
        verbose = _take_verbosity(ctx)
        # a character that the console's encoding lacks is escaped, not an error
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            return self._run(ctx)
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
            lines = _spell_for_shell(error, self).split("\n")
            if verbose:
                click.echo(printable_lines(traceback.format_exc()), err=True)
            elif len(lines) > MAX_LINES:
                lines[MAX_LINES - 1 :] = ["… (-v shows all)"]
            lines += _notes_of(error)
            raise click.ClickException("\n".join(lines)) from error
        except KeyboardInterrupt as error:
            text = "interrupted"
            if self.name in ("create", "alter", "delete"):
                text += f"; {_OUTCOME_UNKNOWN}"
            lines = [text, *_notes_of(error)]
            click.echo("\n".join(lines), err=True)
            ctx.exit(130)
        finally:
            end_at_next_interrupt()

    def _run(self, ctx: click.Context) -> Any:
        """Run the command, print its warnings, and close its client."""
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
                # close the client here, where Ctrl-C is handled, not during garbage
                # collection
                ctx.close()


def _take_verbosity(ctx: click.Context) -> int:
    """Start logging at the level of -v and -q. Return how often -v was passed.

    Both may also precede the command, as in ``rt-frames -v create``.
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
