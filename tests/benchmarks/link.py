"""A simulated link between a client and a sink.

The benchmarks run it as ``-m tests.benchmarks.link``. It sends bytes up at a rate, and
they arrive half a round trip later. It only delays bytes that come down. It holds a
queue of bytes besides those on their way; once that is full, it reads no further, so
that the sender's buffers fill. Time without data to send is lost, but not the delay of
a late wake-up. A new connection costs the round trip of its handshake.
"""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import sys
import threading
import time
from typing import NamedTuple

from tests.benchmarks._sinks import running

ENDED = (0.0, b"")


class Link(NamedTuple):
    """The properties of a link: bytes per second, seconds, bytes."""

    rate: float
    round_trip: float
    queue: float


class Upward:
    """The paced direction of a connection: one thread reads, another delivers."""

    def __init__(
        self, sender: socket.socket, receiver: socket.socket, link: Link
    ) -> None:
        self._sender = sender
        self._receiver = receiver
        self._link = link
        self._step = int(min(max(link.rate * 0.002, 2**14), 2**19))
        # bytes: the queue, and those on their way
        held = link.queue + link.rate * link.round_trip / 2
        self._under_way: queue.Queue[tuple[float, bytes]] = queue.Queue(
            maxsize=int(held // 2**14) + 64
        )
        for work in (self._read, self._deliver):
            threading.Thread(target=work, daemon=True).start()

    def _take(self) -> tuple[bytes, bool]:
        """Return some bytes, and whether they had arrived: then the link was busy."""
        try:
            return self._sender.recv(self._step, socket.MSG_DONTWAIT), True
        except BlockingIOError:
            return self._sender.recv(self._step), False

    def _read(self) -> None:
        # time at which the link has sent all it holds
        free = time.perf_counter()
        rate = self._link.rate
        with contextlib.suppress(OSError):
            while True:
                data, busy = self._take()
                if not data:
                    break
                if not busy:
                    free = max(free, time.perf_counter())
                free += len(data) / rate
                self._under_way.put((free + self._link.round_trip / 2, data))
                ahead = free - time.perf_counter() - self._link.queue / rate
                if ahead > 0:
                    time.sleep(ahead)
        self._under_way.put(ENDED)

    def _deliver(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                due, data = self._under_way.get()
                if not data:
                    break
                _sleep_until(due)
                self._receiver.sendall(data)
        with contextlib.suppress(OSError):
            self._receiver.shutdown(socket.SHUT_WR)


def _sleep_until(due: float) -> None:
    if (left := due - time.perf_counter()) > 0.0001:
        time.sleep(left)


def _delay(sender: socket.socket, receiver: socket.socket, seconds: float) -> None:
    """Forward responses after a delay, one at a time because they are small."""
    with contextlib.suppress(OSError):
        while data := sender.recv(2**16):
            time.sleep(seconds)
            receiver.sendall(data)
    with contextlib.suppress(OSError):
        receiver.shutdown(socket.SHUT_WR)


def _connect(client: socket.socket, target: int, link: Link) -> None:
    # the kernel took the connection at once; a link would not have
    time.sleep(link.round_trip)
    server = socket.create_connection(("127.0.0.1", target))
    for end in (client, server):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    Upward(client, server, link)
    _delay(server, client, link.round_trip / 2)


def serve(target: int, link: Link) -> None:
    """Forward connections to a local port endlessly, from all local addresses."""
    listener = socket.socket()
    # limited, because bytes in this buffer are no part of the queue; the kernel
    # doubles it
    room = int(min(max(link.rate * 0.002, 2**17), 2**20))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    listener.bind(("", 0))
    listener.listen(64)
    print(listener.getsockname()[1], flush=True)
    while True:
        client, _ = listener.accept()
        threading.Thread(
            target=_connect, args=(client, target, link), daemon=True
        ).start()


def linked(target: int, link: Link) -> contextlib.AbstractContextManager[int]:
    """Start a link to a local port in another process, and return its own port."""
    return running("link", target, json.dumps(link))


if __name__ == "__main__":
    serve(int(sys.argv[1]), Link(*json.loads(sys.argv[2])))
