"""A Dask frame on a cluster: workers send the partitions as parts of one write; no rows pass through the client."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import sys
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from rt_frames import errors
from rt_frames._frames.any_frame import is_a, open_source
from rt_frames._frames.compression import CompressionPolicy
from rt_frames._frames.from_dask import Partition
from rt_frames._frames.ipc import IPCStream
from rt_frames._http.arguments import is_loopback
from rt_frames._http.multipart import Sent, send_parts
from rt_frames._http.request import Failure
from rt_frames._service.service import Service
from rt_frames._version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rt_frames._frames.compression import Compression
    from rt_frames._http.request import Request

log = logging.getLogger("rt_frames")

# must run without the package
VERSION = "__import__('rt_frames').__version__"


class Job(NamedTuple):
    """What workers are told: where to write to, and how."""

    service: Service
    options: Mapping[str, Any]
    compression: Compression


class ClusterStream:
    """The partitions of a frame, sent by their workers; it stands where an `IPCStream` stands otherwise.

    Parameters
    ----------
    job : Job
        For the workers.
    client : distributed.Client
        Of the cluster.
    frame : dask.dataframe.DataFrame
        What is written.

    Attributes
    ----------
    rows : int
        Those that were sent so far.
    has_rows : bool
        Whether there is something to send, once `first` has looked.
    """

    length = None

    def __init__(self, job: Job, client: Any, frame: Any) -> None:
        self._job = job
        self._client = client
        self._partitions = frame.to_delayed()
        self.rows = 0

    def first(self) -> Partition:
        """Have the first partition with rows computed, which stays on its worker; its schema is that of all."""
        kept: Any = None
        for number, partition in enumerate(self._partitions):
            kept = self._client.compute(partition)
            future = self._client.submit(_describe, kept, number, self._job, pure=False)
            try:
                rows, self._schema = future.result()
            except BaseException:
                kept.release()
                raise
            finally:
                # a stored failure would keep them alive through its traceback
                future.release()
            self.has_rows = rows > 0
            if self.has_rows:
                break
            kept.release()
        return Partition(None, 0, self._schema, kept.release)

    def send(self, request: Request) -> Sent:
        """Have all partitions sent, and return how many bytes they were; `request` is that of the whole write."""
        import dask
        from distributed import as_completed

        # what can be pickled
        purpose = request.purpose._replace(explain_outcome=None)
        bare = dataclasses.replace(request, purpose=purpose, on_sent=None)
        self.rows = 0
        sent = 0
        with _begin(self._client) as write:
            send = functools.partial(_write, self._job, self._schema, bare, write)
            # neither dask nor distributed has annotations
            task = dask.delayed(send, pure=False)  # type: ignore[attr-defined]
            tasks = [task(part, number) for number, part in enumerate(self._partitions)]
            futures = self._client.compute(tasks)
            try:
                for future in as_completed(futures):  # type: ignore[no-untyped-call]
                    rows, nbytes, failure = future.result()
                    self.rows += rows
                    sent += nbytes
                    if failure is not None:
                        advice = "this happened on a worker of the cluster"
                        return sent, failure.with_advice(advice)
                    if request.on_sent is not None:
                        request.on_sent(sent)
            finally:
                self._client.cancel(futures)
        return sent, None


def find_cluster(
    service: Service, data: Any, options: Mapping[str, Any], compression: Compression
) -> ClusterStream | None:
    """Return the workers that can send a frame; None where it goes through this process."""
    if not is_a(data, "dask.dataframe", "DataFrame"):
        return None
    if not service.is_picklable or service.dialect.part_bytes is None:
        return None
    import dask

    # Dask's own choice may be threads despite a cluster
    scheduler = dask.base.get_scheduler()  # type: ignore[no-untyped-call]
    client = getattr(scheduler, "__self__", None)
    if not is_a(client, "distributed", "Client"):
        return None
    if not _can_reach(service, client) or not _have_package(client):
        return None
    if not service.takes_parts:
        # its answer may tell
        service.session.list_tables()
    if not service.takes_parts:
        return None
    return ClusterStream(Job(service, options, compression), client, data)


def _can_reach(service: Service, client: Any) -> bool:
    """Return whether workers reach the service, if it is at an address of this machine alone."""
    if not service.is_loopback:
        return True
    addresses = client.nthreads()
    return all(
        address.startswith("inproc:") or is_loopback(address) for address in addresses
    )


def _have_package(client: Any) -> bool:
    """Return whether this version of the package is on the cluster; what cannot be unpickled there ends workers."""
    try:
        on_scheduler = client.run_on_scheduler(eval, VERSION)
        on_workers = client.run(eval, VERSION, on_error="return")
        versions = [on_scheduler, *on_workers.values()]
    except ImportError as error:
        versions = [error]
    # of workers lost meanwhile, an OSError
    if all(each == __version__ or isinstance(each, OSError) for each in versions):
        return True
    log.warning(
        "the cluster has not rt_frames %s everywhere: the rows come through this process",
        __version__,
    )
    return False


def _describe(frame: Any, number: int, job: Job) -> tuple[int, pa.Schema]:
    """Return a partition's rows and schema, on a worker that could send it."""
    # raises if the worker has not the key
    _ = job.service.session
    options = {**job.options, "table": None}
    return len(frame), open_source(Partition(frame, number), **options).schema


def _write(
    job: Job,
    schema: pa.Schema,
    request: Request,
    write: str,
    frame: Any,
    number: int,
) -> tuple[int, int, Failure | None]:
    """Send a partition, on a worker; return its rows, its bytes, and what failed.

    A scheduler repeats what a worker did that died, and the service may have what it sent: who comes second sends
    nothing.
    """
    if not len(frame):
        return 0, 0, None
    if not _is_first(write, number):
        text = (
            f"table {request.purpose.table!r}: a worker was lost while it sent "
            f"partition {number}"
        )
        return 0, 0, Failure(errors.UploadInterrupted, text, {"bytes_sent": 0})
    source = open_source(Partition(frame, number, schema), **job.options)
    policy = CompressionPolicy(
        job.compression, job.service.link, is_loopback=job.service.is_loopback
    )
    stream = IPCStream(source, policy)
    session = job.service.session
    bodies = functools.partial(stream.parts, job.service.dialect.part_bytes)
    try:
        sent, failure = send_parts(bodies, session, request, number)
    finally:
        session.close()
    return stream.rows, sent, failure


# on the scheduler, whose one thread makes these calls: the partitions of each write on the way that were begun
_begun: dict[str, set[int]] = {}


@contextlib.contextmanager
def _begin(client: Any) -> Iterator[str]:
    """Begin a write. Its end is the end of what its tasks may send: those on the way are not stopped."""
    write = str(uuid.uuid4())
    client.run_on_scheduler(_add, write)
    try:
        yield write
    finally:
        # a scheduler that is gone keeps nothing
        with contextlib.suppress(OSError):
            client.run_on_scheduler(_remove, write)


def _add(write: str) -> None:
    _begun[write] = set()


def _remove(write: str) -> None:
    _begun.pop(write, None)


def _mark(write: str, number: int) -> bool:
    """Return whether a partition may be sent: nobody has begun it before, and its write has not ended."""
    begun = _begun.get(write)
    if begun is None or number in begun:
        return False
    begun.add(number)
    return True


def _is_first(write: str, number: int) -> bool:
    """Mark a partition as being sent: the scheduler lets one worker through alone, whatever they see of each other."""
    client = sys.modules["distributed"].get_client()
    is_first: bool = client.run_on_scheduler(_mark, write, number)
    return is_first
