"""A body in pieces: nothing is lost, nothing large is copied, and no piece ends where a message does.

`Upload` is private: where a piece ends, and what is copied, no server sees, since TCP joins and splits.
"""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rt_frames._http.upload import COALESCE_BELOW, HOLD_BACK, WRITE_BYTES, Upload


class Sink(list):
    """A file that keeps each buffer that Arrow's writer hands it."""

    closed = False

    def write(self, data: object) -> int:
        self.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        pass

    close = flush


def groups(batches: list[pa.RecordBatch]) -> list[list[bytes]]:
    """Write a stream: one group of buffers for each batch, the schema with the first, and one for the end."""
    sink, made = Sink(), []
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with pa.ipc.new_stream(pa.PythonFile(sink, "w"), batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
            made.append([*sink])
            sink.clear()
    return [*made, [*sink]]


def numbers(sizes: list[int], columns: int = 2) -> list[pa.RecordBatch]:
    return [pa.record_batch({f"c{n}": np.arange(rows) for n in range(columns)}) for rows in sizes]


def dictionaries(sizes: list[int]) -> list[pa.RecordBatch]:
    codes = pa.array(np.arange(10, dtype="int32"))
    return [
        pa.record_batch({"k": pa.DictionaryArray.from_arrays(codes, pa.array(np.arange(10 + rows)))})
        for rows in sorted(sizes)
    ]


def wide(sizes: list[int]) -> list[pa.RecordBatch]:
    """Make batches of many buffers that are joined."""
    return numbers(sizes, 60)


def heads(sizes: list[int]) -> list[pa.RecordBatch]:
    """Make batches whose heads are larger than their values."""
    return numbers([min(rows, 1) for rows in sizes], 2000)


def unframed(wire: bytes) -> bytes:
    """Read chunks as a lenient server does: whatever has come by the end of the connection."""
    data, at = [], 0
    while 0 <= (end := wire.find(b"\r\n", at)) < len(wire) - 2:
        start, stop = end + 2, end + 2 + int(wire[at:end], 16)
        data.append(wire[start:stop])
        at = stop + 2
    return b"".join(data)


SIZES = st.lists(st.sampled_from([0, 1, 10, 2**13, 2**17]), min_size=1, max_size=5)


@settings(max_examples=30)
@given(st.sampled_from([numbers, dictionaries]), SIZES, st.booleans(), st.just(0))
@example(heads, [1, 1, 1], True, 0)
@example(heads, [1, 1, 1], False, 0.11)
@example(wide, [5000] * 2, True, 0)
@example(numbers, [300_000] * 3, True, 0.11)
@example(dictionaries, [0, 2**15, 2**16], True, 0.11)
def test_F39_wherever_a_body_is_broken_off_no_reader_takes_what_came_for_the_whole(make, sizes, framed, pause):
    body = groups(make(sizes))
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
    small = groups([pa.record_batch({"a": np.arange(10)})] * 5)
    assert len(list(Upload(small, None, 1).pieces())) == 1
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
    for seen in ([0, 1], [0, 1, 2]):
        next(pieces)
        assert drawn == seen
    pieces.close()


def test_a_group_of_nothing_does_not_end_the_body():
    assert unframed(b"".join(Upload([[b"a" * 90], [], [b""], [b"b" * 90]], None, 1).pieces())) == b"a" * 90 + b"b" * 90
