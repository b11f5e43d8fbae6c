"""``rt-frames demo``: README's example over HTTP, with pandas and with Polars."""

from __future__ import annotations

import contextlib
import shlex
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import click

from rt_frames._extras import require_local
from rt_frames.cli.command import Command

# URL stands for the server's, TABLE for a path
_PANDAS = """
    import lance, pandas as pd, rt_frames as rt
    rt.connect(URL, api_key="demo")
    df = pd.DataFrame({"region": ["north", "south"], "sold": [3, 4]})
    df.remote.to_table("sales_pandas")
    after = df.rename(columns={"sold": "units"}).astype({"units": "int32"})
    after.remote.alter_table("sales_pandas", before=df, rename={"sold": "units"})
    stored = lance.dataset(TABLE).to_table().to_pandas()
    stored
    stored.equals(after)
"""
_POLARS = """
    import lance, polars as pl, rt_frames as rt
    rt.connect(URL, api_key="demo")
    df = pl.DataFrame({"region": ["north", "south"], "sold": [3, 4]})
    df.remote.to_table("sales_polars")
    after = df.rename({"sold": "units"}).cast({"units": pl.Int32})
    after.remote.alter_table("sales_polars", before=df, rename={"sold": "units"})
    stored = pl.DataFrame(lance.dataset(TABLE).to_table())
    stored
    stored.equals(after)
"""
_TABLES = {"sales_pandas": _PANDAS, "sales_polars": _POLARS}


@click.command(cls=Command, epilog="Example: rt-frames demo --keep ./tables")
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the tables, in this folder.",
)
def demo(keep: Path | None) -> None:
    """Store a frame, alter its table, and read it back with lance.

    Starts a development server of a folder, sends it the requests that the hosted table
    service documents, over real HTTP, and prints each line of Python that it runs.
    """
    require_local()
    from rt_frames.local import LocalService

    with contextlib.ExitStack() as stack:
        if keep is None:
            scratch = stack.enter_context(tempfile.TemporaryDirectory())
            stack.enter_context(contextlib.chdir(scratch))
        folder = Path("tables") if keep is None else keep.expanduser()
        for name in _TABLES:
            if (folder / f"{name}.lance").exists():
                raise ValueError(
                    f"{folder} already has table {name!r}; pass another folder to --keep"
                )
        target = str(folder) if folder.is_absolute() else f"./{folder}"
        service = stack.enter_context(LocalService(folder, api_key="demo"))
        click.echo(f"a development server for folder {target} listens on {service.url}")
        for name, lines in _TABLES.items():
            _run(lines, service.url, f"{target}/{name}.lance")
    if keep is None:
        click.echo(
            "next: type these lines into this environment's Python, the second one as "
            'rt.connect("./tables"), which needs no server'
        )
    else:
        url = shlex.quote(target)
        click.echo(f"next: rt-frames show sales_pandas --rows 2 --url {url}")


def _run(lines: str, url: str, table: str) -> None:
    """Print lines of Python, run them, and print their results as Python does."""
    from rt_frames._connect import disconnect

    names: dict[str, Any] = {}
    try:
        for line in textwrap.dedent(lines).strip().splitlines():
            code = line.replace("URL", repr(url)).replace("TABLE", repr(table))
            click.secho(f">>> {code}", fg="cyan")
            # the lines above
            exec(compile(code, "demo", "single"), names)  # noqa: S102  # nosec B102
        if not names["stored"].equals(names["after"]):
            raise click.ClickException(f"{table} differs from its frame")
        click.echo()
    finally:
        disconnect()
