"""Options that several commands share: the service, tables, and how files are read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from rt_frames._extras import require
from rt_frames._names import DialectName, check_table_name
from rt_frames.cli.command import usage_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from rt_frames._client import Client
    from rt_frames.cli.input_file import FileOptions

Pairs = dict[str, str]


def _combine(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Combine several decorators into one."""

    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _check_url(
    _ctx: click.Context, _param: click.Parameter, url: str | None
) -> str | None:
    from rt_frames._connect import parse_target

    if url is not None:
        try:
            parse_target(url, None, None)
        except ValueError as error:
            raise usage_error(error) from error
    return url


service_options = _combine(
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
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def connect(
    url: str | None, key_file: Path | None, *, make_folder: bool = False, **options: Any
) -> Client:
    """Connect a client, which is closed when the command ends.

    Raises ValueError if the target is a missing folder, unless ``make_folder``.
    """
    from rt_frames._connect import connect, parse_target

    target = parse_target(url, None, None)
    if isinstance(target, Path):
        require("local")
        if not make_folder and not target.is_dir():
            raise ValueError(
                f"{target}: no such folder; rt-frames create and rt-frames serve make it"
            )
    # no variable holds the key: a traceback may show variables
    client = connect(
        target,
        api_key=key_file.read_text("utf-8-sig").strip() if key_file else None,
        default=False,
        **options,
    )
    # shell completion has no current context
    if context := click.get_current_context(silent=True):
        context.call_on_close(client.close)
    return client


def _complete_table(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[str]:
    params = ctx.params
    try:
        client = connect(
            params["url"],
            params["key_file"],
            allow_insecure=params["allow_insecure"],
            dialect=params["dialect"],
            timeout=2,
            retries=0,
        )
        names = client.list_tables()
    except Exception:  # noqa: BLE001  # shell completion cannot show errors
        return []
    printable = filter(str.isprintable, names)
    return [name for name in printable if name.startswith(incomplete)]


def check_name(_ctx: click.Context, _param: click.Parameter, name: str) -> str:
    """Raise click.UsageError for an invalid table name."""
    try:
        check_table_name(name)
    except ValueError as error:
        raise usage_error(error) from error
    return name


table_argument = click.argument(
    "name", callback=check_name, shell_complete=_complete_table
)


def pairs_option(
    option: str,
    metavar: str,
    help_text: str,
    expected: str = "",
    value_pattern: str = "(?s).+",
) -> Callable[[Any], Any]:
    """Make a repeatable option NAME=VALUE, which is passed to the command as a dict.

    ``value_pattern`` is a regular expression for the values; ``expected`` describes it
    in errors, instead of ``metavar``.
    """

    def parse(
        _ctx: click.Context, _param: click.Parameter, pairs: tuple[str, ...]
    ) -> Pairs:
        parsed: Pairs = {}
        for pair in pairs:
            name, _, value = pair.partition("=")
            if not re.fullmatch(value_pattern, value):
                raise click.UsageError(
                    f"{option}: expected {expected or metavar}, got {pair!r}"
                )
            if name in parsed:
                raise click.UsageError(
                    f"{option}: {name!r} is passed twice; pass it once"
                )
            parsed[name] = value
        return parsed

    return click.option(
        option,
        multiple=True,
        metavar=metavar,
        callback=parse,
        help=f"{help_text} Repeatable.",
    )


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
    if not value:
        return None
    try:
        # codecs.lookup() would accept base64 and other codecs that are not of text
        "a".encode(value)
    except (LookupError, UnicodeError):
        raise click.UsageError(
            f"--encoding: {value!r:.50} is not a text encoding; pass a name such as "
            "cp1252 or utf-16"
        ) from None
    return value


read_options = _combine(
    click.option(
        "--format",
        type=click.Choice(["parquet", "csv", "ndjson", "json", "arrow"]),
        help="Format of the files. Default: by their extension.",
    ),
    click.option(
        "--separator",
        metavar="CHAR",
        callback=_parse_separator,
        help="Separator of CSV cells. Default: a comma; in .tsv, a tab.",
    ),
    click.option(
        "--decimal",
        type=click.Choice([".", ","]),
        default=".",
        show_default=True,
        help="Decimal point in CSV.",
    ),
    click.option(
        "--date-format",
        metavar="FORMAT",
        help="Format of CSV dates, such as %d/%m/%Y. Default: ISO, %Y-%m-%d.",
    ),
    click.option(
        "--encoding",
        metavar="NAME",
        callback=_check_encoding,
        help="Text encoding of CSV and JSON. Default: UTF-8.",
    ),
    click.option(
        "--null",
        "nulls",
        multiple=True,
        metavar="TEXT",
        help="CSV cell that means null, besides an empty one. Repeatable.",
    ),
    click.option(
        "--no-header",
        "header",
        is_flag=True,
        flag_value=False,
        default=True,
        help="The CSV has no line of column names; they are column0, column1, …",
    ),
    pairs_option(
        "--dtype",
        "NAME=DTYPE",
        "Type of a column, by its name in the file, instead of the inferred type.",
    ),
    click.option(
        "--clean-names",
        is_flag=True,
        help="Make column names valid: 'a.b' becomes a_b.",
    ),
)


def take_file_options(options: dict[str, Any]) -> FileOptions:
    """Pop the options for reading files from a command's options."""
    from rt_frames._schema.any_dtype import to_arrow_type
    from rt_frames.cli.csv_files import check_date_format
    from rt_frames.cli.input_file import FileOptions

    dtypes = {}
    try:
        for name, dtype in options.pop("dtype").items():
            dtypes[name] = to_arrow_type(dtype, name)
    except ValueError as error:
        raise click.UsageError(f"--dtype: {error}") from error
    if options["date_format"] is not None:
        check_date_format(options["date_format"])
    shared = options.keys() & FileOptions._fields
    values = {name: options.pop(name) for name in shared}
    return FileOptions(dtypes=dtypes, **values)
