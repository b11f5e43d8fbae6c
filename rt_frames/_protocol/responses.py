"""Parse a service's responses, without trust.

A body that could not be read is a `Response` with a ``problem``; one that cannot be
parsed raises ValueError. What is said in the body of a refusal is found in any form.
"""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

import pyarrow as pa
from pyarrow import types

from rt_frames import errors
from rt_frames._names import duplicates
from rt_frames._protocol.arrow_messages import END_OF_STREAM, MARKER, MessageFile
from rt_frames._protocol.versions import Version
from rt_frames._schema.data_type import to_schema
from rt_frames._text import list_names, one_line, shorten

# the version of LanceDB's servers, and the first of them with multipart writes
LANCEDB_HEADER = "phalanx-version"
PARTS_SINCE = (0, 4)
_EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)
MAX_LIST_BYTES = 16 * 2**20
# characters of a service's message that an error keeps
MAX_MESSAGE = 300
_MAX_BODY_SHOWN = 2000
_ARROW_TYPE = "application/vnd.apache.arrow"
_NEXT_PAGE = "next_page_token"
_PAGE = "page_token"
# other names of what leads to the next page
_MORE = re.compile("(?i)next|has_?more|cursor|continuation|page_?token")
# beside a message, error and title name the kind of error
_MESSAGE_FIELDS = (
    "message",
    "msg",
    "error_description",
    "error",
    "detail",
    "title",
    "errors",
    "reason",
)


class Response(NamedTuple):
    """A response, with the reason why its body is incomplete, if any."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    problem: str | None = None


class Token(str):
    """A text that is sent back in a URL, and so is logged by others."""

    __slots__ = ()


class Description(NamedTuple):
    """A table's columns, version and ETag; None if the service does not report them."""

    schema: pa.Schema | None
    version: int | None
    etag: str | None = None


def decode_text(response: Response) -> str:
    """Decode a body as its charset says, else as JSON does, with replacements."""
    content_type = response.headers.get("Content-Type", "")
    match = re.search(r"""(?i)charset\s*=\s*["']?([\w.:-]{1,40})""", content_type)
    # an unknown charset, or a codec that is none
    with contextlib.suppress(LookupError, ValueError):
        if match:
            return response.body.decode(match[1], "replace")
    return response.body.decode(json.detect_encoding(response.body), "replace")


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
    content = decode_json(decode_text(response).encode())
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
    if response.body.startswith(MARKER) and not response.problem:
        names = _read_arrow_names(response.body)
    else:
        names = _decode_whole(response)
        token = _parse_token(names)
        if isinstance(names, dict):
            names = names.get("tables")
    if isinstance(names, list):
        names = [name.get("name") if isinstance(name, dict) else name for name in names]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(
            'the response is not a list of tables such as {"tables": ["a"]}'
        )
    return names, token


def parse_open_names(response: Response) -> tuple[list[str], str | None] | None:
    """Return names and token as `parse_table_names`, or None if the body has nothing.

    A service may respond so for a project without tables.
    """
    body = response.body.strip()
    content = decode_json(body)
    is_null = body == b"null" or (
        isinstance(content, dict) and content.get("tables", ...) is None
    )
    is_whole = response.status in (200, 204) and not response.problem
    if is_whole and (not body or is_null):
        return None
    return parse_table_names(response)


def parse_told_names(response: Response) -> tuple[list[str], str | None] | None:
    """Return names and token, or None also if JSON or Arrow data has another form."""
    try:
        return parse_open_names(response)
    except ValueError:
        if find_doubt(response, is_open=True):
            raise
        return None


def _parse_token(content: Any) -> str | None:
    """Return the token of the next page, for a query string, or None."""
    fields = content if isinstance(content, dict) else {}
    for name, value in fields.items():
        if value and _MORE.search(name) and name not in (_PAGE, _NEXT_PAGE):
            raise ValueError(
                f"the list goes on at its {name:.40}, and only {_PAGE} is understood"
            )
    # beside next_page_token, page_token may be that of this page
    field = _PAGE if fields.get(_NEXT_PAGE) is None else _NEXT_PAGE
    token = fields.get(field)
    if not isinstance(token, str | None):
        raise ValueError(f"the response's {field} is not a string")
    return Token(quote(token, safe="")) if token else None


def parse_versions(response: Response) -> tuple[list[Version], str | None]:
    """Return the versions in a list of them, and the token of the next page."""
    content = _decode_whole(response)
    items = get_field(content, "versions")
    if not isinstance(items, list):
        raise ValueError(
            'the response is not a list of versions such as {"versions": []}'
        )
    return [_parse_listed(item) for item in items], _parse_token(content)


def _parse_listed(item: Any) -> Version:
    number = get_field(item, "version")
    # type(), as True is an int
    if type(number) is not int:
        raise ValueError("the response lists a version without a number")
    metadata = get_field(item, "metadata")
    operation = get_field(metadata, "operation")
    if not isinstance(operation, str):
        operation = None
    # of Lance's summary of a manifest, whose values are text
    rows = str(get_field(metadata, "total_rows"))
    is_number = re.fullmatch("[0-9]{1,19}", rows)
    return Version(
        number, _parse_time(item), operation, int(rows) if is_number else None
    )


def _parse_time(item: Any) -> datetime.datetime:
    """Return when a version was made, in UTC.

    LanceDB's API has a text, the Lance namespace of 2026 a number of milliseconds.
    """
    text = get_field(item, "timestamp")
    try:
        if text is None:
            after = datetime.timedelta(milliseconds=item.get("timestamp_millis"))
            return _EPOCH + after
        time = datetime.datetime.fromisoformat(text)
        if time.tzinfo is None:
            time = time.replace(tzinfo=datetime.UTC)
        return time.astimezone(datetime.UTC)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("the response lists a version without a time") from None


def parse_description(response: Response) -> Description:
    """Return a table's schema, version and ETag."""
    etag = get_field(decode_json(response.body), "etag")
    is_etag = isinstance(etag, str)
    columns = _parse_columns(response)
    return Description(columns, parse_version(response), etag if is_etag else None)


def _parse_columns(response: Response) -> pa.Schema | None:
    """Return the schema in a table's description, or None."""
    fields = get_field(_decode_whole(response), "schema")
    if fields is None:
        return None
    try:
        schema = to_schema(fields)
    except (ValueError, errors.UnsupportedTypeError) as error:
        raise ValueError(
            f"the response describes columns that are not valid: {error}"
        ) from None
    twice = duplicates(schema.names)
    if twice:
        raise ValueError(
            f"the response describes columns {list_names(twice)} more than once"
        )
    return schema


def _read_arrow_names(body: bytes) -> Any:
    if not body.endswith(END_OF_STREAM):
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


def parse_no_rows(response: Response) -> Any:
    """Raise ValueError for a success that carries no rows."""
    raise ValueError(f"the {response.status} response has no rows")


def parse_upload(response: Response) -> Token:
    """Return the id of a multipart write."""
    upload_id = get_field(_decode_whole(response), "upload_id")
    if not isinstance(upload_id, str) or not upload_id:
        raise ValueError("the response has no upload_id")
    return Token(upload_id)


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
    """A table's new version, and numbers of rows, where reported."""

    version: int | None
    updated: int | None
    inserted: int | None
    deleted: int | None


def parse_written(response: Response) -> Written:
    """Return the version and numbers of rows of a write, where reported."""
    return Written(
        parse_version(response),
        _whole_number(response, "num_updated_rows"),
        _whole_number(response, "num_inserted_rows"),
        _whole_number(response, "num_deleted_rows"),
    )


def _whole_number(response: Response, name: str) -> int | None:
    value = get_field(decode_json(response.body), name)
    return value if type(value) is int else None


def find_doubt(response: Response, *, is_open: bool = False) -> str:
    """Return why the body of a success does not confirm a write, or "".

    Confirmed: no body, or a JSON object without an error; if the documentation leaves
    the body open, other JSON, too, and Arrow data. Anything else comes from a proxy.
    """
    status = response.status
    start = response.body.lstrip()[:1]
    # some frameworks label JSON so by default
    content_type = response.headers.get("Content-Type", "").strip().lower()
    is_html = status != 204 and "text/html" in content_type
    if start == b"<" or (is_html and (start != b"{" or response.problem)):
        return f"the {status} response is a web page: check the URL"
    if response.problem:
        return f"the {status} response cannot be read: {response.problem}"
    if not start or (is_open and content_type.startswith(_ARROW_TYPE)):
        return ""
    content = decode_json(response.body)
    is_other_json = content is not None or response.body.strip() == b"null"
    is_confirmed = is_open and is_other_json and not content_type.startswith("text/")
    if not isinstance(content, dict) and not is_confirmed:
        shown = show_body(response)[:100]
        return f"the {status} response is not a JSON object: {shown!r}"
    items = content if isinstance(content, list) else [content]
    if not any(get_field(item, "error") for item in items):
        return ""
    message = find_message(response) or "without a message"
    return f"the {status} response reports an error, {message}"


def find_message(response: Response) -> str:
    """Find the message in an error's body: JSON, HTML or plain text."""
    text = response.body[: 2**16].decode("utf-8", "replace")
    content = decode_json(response.body)
    if content is not None:
        text = _find_sentence(content)
    elif "<" in text[:200]:
        # html.parser takes minutes for 64 kB of unclosed tags
        text = re.sub("<[^<>]*>", " ", re.split("(?i)</head>", text)[-1])
    text = text.replace("\ufffd", " ")
    printable = "".join(char if char.isprintable() else " " for char in text)
    return one_line(printable, MAX_MESSAGE)


def _find_sentence(value: Any, levels: int = 9) -> str:
    if isinstance(value, str):
        return value
    if levels and isinstance(value, list):
        sentences = [_find_sentence(item, levels - 1) for item in value[:5]]
        return "; ".join(filter(None, sentences))
    if levels and isinstance(value, dict):
        for name in _MESSAGE_FIELDS:
            sentence = _find_sentence(value.get(name), levels - 1)
            if sentence:
                return sentence
    return ""


def find_code(response: Response) -> int | None:
    """Return the code of LanceDB's errors."""
    return _whole_number(response, "code")


def show_body(response: Response) -> str:
    """Return the start of a body, as text."""
    return shorten(response.body.decode("utf-8", "replace"), _MAX_BODY_SHOWN)


def find_new_host(response: Response) -> str:
    """Return the host of a redirect, without user and password."""
    location = response.headers.get("Location", "")
    match = re.match(r"(?i)https?://(?:[^/?#@]*@)?([a-z0-9.:*\[\]-]+)", location)
    return match[1][:100] if match else "another path of the same host"
