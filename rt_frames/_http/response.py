"""Read a service's response, within bounds and without trust, and parse it.

A body that cannot be read becomes a `Response` with a ``problem``; one that cannot be
parsed raises ValueError.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

import pyarrow as pa
import requests
import urllib3
from pyarrow import types
from requests.structures import CaseInsensitiveDict

from rt_frames._arrow_messages import MessageFile
from rt_frames._http.arguments import Secrets
from rt_frames._text import one_line

MAX_LIST_BYTES = 16 * 2**20


class Response(NamedTuple):
    """A response, with the reason why its body is incomplete, if any."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    problem: str | None = None

    def without(self, secrets: Secrets) -> Response:
        """Return a copy with secrets redacted: a server may echo the key."""
        text = self.body.decode(json.detect_encoding(self.body), "replace")
        headers = CaseInsensitiveDict[str]()
        for name, value in self.headers.items():
            headers[name] = secrets.hide(value)
        problem = self.problem
        if problem is not None:
            problem = secrets.hide(problem)
        return Response(self.status, headers, secrets.hide(text).encode(), problem)


def find_encoding(headers: Mapping[str, str]) -> str:
    """Return the Content-Encoding, or "" for identity, the only supported one."""
    encoding = headers.get("Content-Encoding", "").strip().lower()
    return "" if encoding == "identity" else encoding


def read_response(response: requests.Response, max_bytes: int) -> Response:
    """Read a body of at most ``max_bytes``. The connection has the deadline."""
    body = bytearray()
    problem = None
    encoding = find_encoding(response.headers)
    if encoding:
        problem = f"it is encoded as {encoding!r:.40}"
    try:
        while problem is None:
            piece = response.raw.read1(2**16, decode_content=False)
            if not piece:
                break
            body += piece
            if len(body) > max_bytes:
                problem = f"it is longer than {max_bytes // 2**20} MiB"
    except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        problem = f"it was interrupted ({type(error).__name__})"
    return Response(
        response.status_code, response.headers, bytes(body[:max_bytes]), problem
    )


def decode_json(body: bytes) -> Any:
    """Decode JSON. None if the body is not JSON, or nested too deeply."""
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(body)
    return None


def get_field(content: Any, name: str) -> Any:
    """Return a field of a JSON object, or None."""
    return content.get(name) if isinstance(content, dict) else None


def _decode_whole(response: Response) -> Any:
    """Decode a JSON response, or raise ValueError."""
    if response.problem:
        raise ValueError(f"the response could not be read: {response.problem}")
    content = decode_json(response.body)
    if content is None:
        raise ValueError("the response is not JSON")
    return content


def parse_table_names(response: Response) -> tuple[list[str], str | None]:
    """Return the names in a list of tables, and the token of the next page.

    The service's documentation leaves the form open: ``{"tables": [...], "page_token":
    ...}``, a bare array, objects with ``name``, or an Arrow stream with a ``name``
    column.
    """
    names: Any
    token = None
    if response.body[:4] == b"\xff\xff\xff\xff" and not response.problem:
        names = _read_arrow_names(response.body)
    else:
        names = _decode_whole(response)
        if isinstance(names, dict):
            token = names.get("page_token")
            names = names.get("tables")
    if isinstance(names, list):
        names = [name.get("name") if isinstance(name, dict) else name for name in names]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(
            'the response is not a list of tables such as {"tables": ["a"]}'
        )
    if not isinstance(token, str | None):
        raise ValueError("the response's page_token is not a string")
    return names, quote(token, safe="") if token else None


def parse_schema(response: Response) -> Any:
    """Return the schema in a table's description, or None."""
    return get_field(_decode_whole(response), "schema")


def _read_arrow_names(body: bytes) -> Any:
    if not body.endswith(b"\xff\xff\xff\xff\0\0\0\0"):
        raise ValueError("the response is a truncated Arrow stream")
    names: list[Any] = []
    bytes_left = MAX_LIST_BYTES
    try:
        for batch in pa.ipc.open_stream(MessageFile(io.BytesIO(body).read, bytes_left)):
            column = _find_names(batch)
            bytes_left -= column.nbytes
            _check_left(bytes_left)
            names += column.to_pylist()
    except (pa.ArrowException, KeyError, OSError, ValueError) as error:
        raise ValueError(
            f"the response is not an Arrow stream with a name column ({one_line(str(error), 200)})"
        ) from None
    return names


def _find_names(batch: pa.RecordBatch) -> pa.Array:
    column = batch.column("name")
    # values of other types may share their bytes, and each would be a text of its own
    if not (types.is_string(column.type) or types.is_large_string(column.type)):
        raise ValueError(f"the names are {str(column.type)[:80]}")
    # offsets beyond the buffers would expose other memory
    column.validate(full=True)
    return column


def _check_left(nbytes: int) -> None:
    if nbytes < 0:
        raise ValueError(f"it takes more than {MAX_LIST_BYTES // 2**20} MiB")


def parse_no_rows(response: Response) -> None:
    """Raise ValueError for a success that carries no rows."""
    raise ValueError(f"the {response.status} response has no rows")


def parse_upload_id(response: Response) -> str:
    """Return the id of a multipart write."""
    upload_id = get_field(_decode_whole(response), "upload_id")
    if not isinstance(upload_id, str) or not upload_id:
        raise ValueError("the response has no upload_id")
    return upload_id


def parse_indices(response: Response) -> list[str]:
    """Return the names of a table's indices."""
    indices = get_field(_decode_whole(response), "indexes")
    if not isinstance(indices, list):
        return []
    names = [get_field(index, "index_name") for index in indices]
    return [str(name) for name in names if name]


def parse_count(response: Response) -> int:
    """Return a number of rows."""
    rows = _decode_whole(response)
    # type(), as True is an int
    if type(rows) is not int or rows < 0:
        raise ValueError("the response is not a number of rows")
    return rows


def parse_version(response: Response) -> int | None:
    """Return the table's new version, or None if the service does not report it."""
    return _whole_number(response, "version")


class Written(NamedTuple):
    """A table's new version and the numbers of rows of an upsert, where reported."""

    version: int | None
    updated: int | None
    inserted: int | None


def parse_written(response: Response) -> Written:
    """Return the version and numbers of rows of a write, where reported."""
    return Written(
        parse_version(response),
        _whole_number(response, "num_updated_rows"),
        _whole_number(response, "num_inserted_rows"),
    )


def parse_deleted(response: Response) -> tuple[int | None, int | None]:
    """Return the new version and the number of deleted rows, as far as reported."""
    return parse_version(response), _whole_number(response, "num_deleted_rows")


def _whole_number(response: Response, name: str) -> int | None:
    value = get_field(decode_json(response.body), name)
    return value if type(value) is int else None
