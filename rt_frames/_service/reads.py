"""Reads of a table: its rows, which of them, and its indices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rt_frames import errors
from rt_frames._frames.where import check
from rt_frames._protocol.meanings import may_lack_operation
from rt_frames._protocol.operations import INDICES, QUERY
from rt_frames._protocol.responses import parse_indices, parse_no_rows
from rt_frames._service.where import write_where

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rt_frames._http.rows import Rows
    from rt_frames._service.service import Service


def read_rows(
    service: Service, name: str, content: Mapping[str, Any], *, since: int | None = None
) -> Rows:
    """Make a query. Its rows are read lazily."""
    rows: Rows = service.ask(
        QUERY,
        name,
        content,
        parse_no_rows,
        since=since,
        query=content,
    )
    return rows


def find_condition(
    service: Service,
    name: str,
    where: Any,
    version: int | None,
    since: int | None,
) -> str | None:
    """Return the SQL of a condition for a read; None without one."""
    if where is None:
        return None
    checked = check(where)
    # raises an error with a cure if the dialect cannot read
    service.dialect.path(QUERY, name)
    schema = service.describe(name, version=version, since=since).schema
    pinned = "" if version is None else f", version={version}"
    cure = f'nothing was read; use rt.table("{name}"{pinned}).scan().filter(…)'
    return write_where(checked, schema, cure)


def list_indices(service: Service, name: str) -> list[str]:
    """List a table's indices. Empty if the service cannot list them."""
    try:
        return service.ask(INDICES, name, {"version": None}, parse_indices)
    except errors.ResponseError as error:
        if not may_lack_operation(error):
            raise
    return []
