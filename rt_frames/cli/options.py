"""Options that several commands share: the service, and tables."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click
from click.shell_completion import CompletionItem

from rt_frames import errors
from rt_frames._extras import require_local
from rt_frames._names import DialectName, check_table_name
from rt_frames._text import make_printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from rt_frames._client import Client


def _check_url(
    _ctx: click.Context, _param: click.Parameter, url: str | None
) -> str | None:
    from rt_frames._connect import parse_target

    if url is not None:
        try:
            parse_target(url, None, None)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
    return url


_SERVICE_OPTIONS = [
    click.option(
        "--url",
        metavar="URL",
        callback=_check_url,
        help="Address of the service, or a folder such as ./NAME. Default: RT_FRAMES_URL.",
    ),
    click.option(
        "--key-file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="File that holds the API key. Default: the key in RT_FRAMES_API_KEY.",
    ),
    click.option(
        "--allow-insecure",
        is_flag=True,
        help="Allow plain http to another machine, where others may read the key.",
    ),
    click.option(
        "--dialect",
        type=click.Choice(get_args(DialectName)),
        help="API of the service. Default: RT_FRAMES_DIALECT, else documented.",
    ),
]


def service_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that `connect` takes."""
    for option in reversed(_SERVICE_OPTIONS):
        command = option(command)
    return command


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def connect(url: str | None, key_file: Path | None, **options: Any) -> Client:
    """Connect a client, which is closed when the command ends.

    Raises ValueError if the target is a missing folder.
    """
    from rt_frames._connect import connect, parse_target

    try:
        target = parse_target(url, None, None)
    except errors.NotConnectedError as error:
        raise ValueError(
            "not connected to any service; pass --url with an address or a folder such "
            "as ./NAME, or set RT_FRAMES_URL (and RT_FRAMES_API_KEY)"
        ) from error
    if isinstance(target, Path):
        require_local()
        if not target.is_dir():
            raise ValueError(
                f"{target}: no such folder; rt-frames serve or rt.connect() makes it"
            )
    # no variable holds the key: a traceback may show variables
    try:
        client = connect(
            target,
            api_key=key_file.read_text("utf-8-sig").strip() if key_file else None,
            default=False,
            **options,
        )
    except errors.NotConnectedError as error:
        raise ValueError(
            "no API key; pass --key-file, or set RT_FRAMES_API_KEY"
        ) from error
    # shell completion has no current context
    if context := click.get_current_context(silent=True):
        context.call_on_close(client.close)
    return client


def _connect_briefly(ctx: click.Context) -> Client:
    """Connect for shell completion, which must not take long."""
    params = ctx.params
    return connect(
        params["url"],
        params["key_file"],
        allow_insecure=params["allow_insecure"],
        dialect=params["dialect"],
        timeout=2,
        retries=0,
    )


def _complete_table(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[str]:
    try:
        names = _connect_briefly(ctx).list_tables()
    except Exception:  # noqa: BLE001  # shell completion cannot show errors
        return []
    printable = filter(str.isprintable, names)
    return [name for name in printable if name.startswith(incomplete)]


def _complete_version(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    items = []
    # shell completion cannot show errors
    with contextlib.suppress(Exception):
        for version in _connect_briefly(ctx).table(ctx.params["name"]).history():
            number = str(version.version)
            if number.startswith(incomplete):
                note = f"{version.time:%Y-%m-%d %H:%M:%S} UTC"
                if version.operation is not None:
                    note += f", {make_printable(version.operation)}"
                items.append(CompletionItem(number, help=note))
    return items


def _check_name(_ctx: click.Context, _param: click.Parameter, name: str) -> str:
    try:
        check_table_name(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    return name


table_argument = click.argument(
    "name", callback=_check_name, shell_complete=_complete_table
)
version_argument = click.argument(
    "version", type=click.IntRange(1), shell_complete=_complete_version
)
