"""A body in pieces: nothing is lost, nothing large is copied, and no piece ends where a message does."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest

from rt_frames._http.upload import COALESCE_BELOW, COALESCE_FOR, HOLD_BACK, WRITE_BYTES, Upload


class Sink:
    """A file that keeps each buffer that Arrow's writer hands it."""

    closed = False

    def __init__(self) -> None:
        self.buffers: list[bytes] = []

    def write(self, data: object) -> int:
        self.buffers.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        pass

    close = flush


def groups(*batches: pa.RecordBatch) -> list[list[bytes]]:
    """Write a stream: one group of buffers for each batch, the schema with the first, and one for the end."""
    sink, made = Sink(), []
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with pa.ipc.new_stream(pa.PythonFile(sink, "w"), batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
            made.append(sink.buffers)
            sink.buffers = []
    return [*made, sink.buffers]


def dictionary(size: int) -> pa.RecordBatch:
    codes = pa.array(np.arange(10, dtype="int32"))
    return pa.record_batch({"k": pa.DictionaryArray.from_arrays(codes, pa.array(np.arange(size)))})


def unframed(wire: bytes) -> bytes:
    """Read chunks as a lenient server does: whatever has come by the end of the connection."""
    data, at = [], 0
    while 0 <= (end := wire.find(b"\r\n", at)) < len(wire) - 2:
        start, stop = end + 2, end + 2 + int(wire[at:end], 16)
        data.append(wire[start:stop])
        at = stop + 2
    return b"".join(data)


BATCHES = {
    "small": [pa.record_batch({"a": np.arange(10)})] * 5,
    "large": [pa.record_batch({"a": np.arange(300_000), "b": np.arange(300_000)})] * 3,
    "mixed": [pa.record_batch({"a": np.arange(n)}) for n in (10, 2**17, 1, 2**13, 0, 5)],
    "dictionaries": [dictionary(n) for n in (10, 2**15, 2**16)],
    "wide": [pa.record_batch({f"c{n}": np.arange(5000) for n in range(60)})] * 2,
    "of large heads": [pa.record_batch({f"c{n}": np.arange(n % 3 * 10_000 + 1)[:1] for n in range(2000)})] * 3,
}


@pytest.mark.parametrize("of", BATCHES)
@pytest.mark.parametrize("framed", [True, False])
@pytest.mark.parametrize("pause", [1.1 * COALESCE_FOR, 0], ids=["slow source", "fast source"])
def test_F39_wherever_a_body_is_broken_off_no_reader_takes_what_came_for_the_whole(of, framed, pause):
    body = groups(*BATCHES[of])
    whole = b"".join(buffer for group in body for buffer in group)
    source = (group for group in body if not time.sleep(pause))
    pieces = [bytes(piece) for piece in Upload(source, None if framed else len(whole), 1).pieces()]
    assert all(0 < len(piece) <= WRITE_BYTES + COALESCE_BELOW for piece in pieces)
    wire = b""
    for piece in pieces[:-1]:
        wire += piece
        with pytest.raises((pa.ArrowInvalid, OSError)):
            pa.ipc.open_stream(unframed(wire) if framed else wire).read_all()
    wire += pieces[-1]
    assert (unframed(wire) if framed else wire) == whole
    assert not framed or wire.endswith(b"\r\n0\r\n\r\n")


def test_a_small_body_is_one_piece_and_a_large_one_is_not_copied():
    assert len(list(Upload(groups(*BATCHES["small"]), None, 1).pieces())) == 1
    large = bytes(10 * 2**20)
    views = [piece for piece in Upload([[large]], len(large), 1).pieces() if isinstance(piece, memoryview)]
    assert sum(map(len, views)) == len(large) - HOLD_BACK
    assert all(view.obj is large for view in views)


def test_what_comes_slowly_leaves_as_it_comes():
    drawn = []

    def slowly():
        for number in range(4):
            drawn.append(number)
            yield [bytes(2 * HOLD_BACK)]
            time.sleep(0.15)

    pieces = Upload(slowly(), None, 1).pieces()
    next(pieces)
    assert drawn == [0, 1]
    next(pieces)
    assert drawn == [0, 1, 2]
    pieces.close()


def test_a_group_of_nothing_does_not_end_the_body():
    assert unframed(b"".join(Upload([[b"a" * 90], [], [b""], [b"b" * 90]], None, 1).pieces())) == b"a" * 90 + b"b" * 90
