"""One request as a value, the key that signs it, and what a successful answer brings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rt_frames._http.connection import Upload
    from rt_frames._http.response import Answer
    from rt_frames.errors import Operation

KEY_HEADER = "x-api-key"


class Key:
    """An API key that shows in no repr, no ``vars()`` and no pickle."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        if not isinstance(value, str) or not value or not all("!" <= char <= "~" for char in value):
            raise ValueError(
                "api_key: expected a non-empty string of visible ASCII characters without spaces or line ends; "
                "check how it was copied or read from its file"
            )
        self._value = value

    def __repr__(self) -> str:
        return "<key>"

    def __reduce__(self) -> Any:
        raise TypeError("an API key is not pickled")

    def sign(self, headers: Any) -> None:
        """Put the key where the service looks for it."""
        headers[KEY_HEADER] = self._value

    def hide(self, text: str) -> str:
        """Strike the key out of a server's words."""
        return text.replace(self._value, "***")


@dataclass(frozen=True)
class Call:
    """One request as a value: what is asked, and how its body is made, anew for each attempt."""

    operation: Operation
    method: str
    path: str
    content_type: str
    read: Callable[[Answer], Any]
    table: str | None = None
    upload: Callable[[], Upload] | None = None
    repeatable: bool = True
    rows: int | None = None


class Done(NamedTuple):
    """What a successful call brought: the value in its answer, its id, and the bytes of body sent."""

    value: Any
    request_id: str
    sent: int


def upload_of(
    messages: Callable[[], Iterable[Any]],
    length: int | None,
    timeout: float,
    on_sent: Callable[[int, float], None] | None = None,
) -> Upload:
    """Make a body for one attempt."""
    from rt_frames._http.connection import Upload  # which imports what only a request needs

    return Upload(messages, length, timeout, on_sent)
