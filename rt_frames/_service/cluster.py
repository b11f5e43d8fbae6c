"""Send a Dask frame from a cluster's workers, each partition as parts of one write.

No rows pass through this process. `ClusterStream` finds the first partition with rows,
registers a write on the scheduler, submits one task for each partition, and adds up the
workers' results. The scheduler marks each partition whose sending begins: it repeats
the tasks of a worker that died, and no partition may be sent twice.
"""

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
from rt_frames._frames.from_dask import Partition
from rt_frames._http.arguments import is_loopback
from rt_frames._protocol.calls import Failure
from rt_frames._service.multipart import Sent, send_parts
from rt_frames._service.service import Service
from rt_frames._stream.compression import CompressionPolicy
from rt_frames._stream.ipc import IPCStream
from rt_frames._version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rt_frames._frames.open_options import OpenOptions
    from rt_frames._protocol.calls import Request
    from rt_frames._stream.compression import Compression

log = logging.getLogger("rt_frames")

# must be evaluated without the package
VERSION = "__import__('rt_frames').__version__"


class Job(NamedTuple):
    """A write's target and options, pickled for the workers."""

    service: Service
    opening: OpenOptions
    compression: Compression


class ClusterStream:
    """Sends a frame's partitions from their workers, in place of an `IPCStream`.

    Parameters
    ----------
    job : Job
        The write, for the workers.
    client : distributed.Client
        The cluster's client.
    frame : dask.dataframe.DataFrame
        The frame to write.

    Attributes
    ----------
    rows : int
        Rows sent so far.
    has_rows : bool
        Whether a partition has rows; set by `first`.
    """

    length = None
    # the workers know
    is_compressed = False

    def __init__(self, job: Job, client: Any, frame: Any) -> None:
        self._job = job
        self._client = client
        self._partitions = frame.to_delayed()
        self.rows = 0

    def first(self) -> Partition:
        """Compute the first partition with rows, which stays on its worker.

        Its schema applies to all partitions.
        """
        computed: Any = None
        for number, partition in enumerate(self._partitions):
            computed = self._client.compute(partition)
            description = self._client.submit(
                _describe, computed, number, self._job, pure=False
            )
            try:
                rows, self._schema = description.result()
            except BaseException:
                computed.release()
                raise
            finally:
                # a stored failure's traceback would keep its values alive
                description.release()
            self.has_rows = rows > 0
            if self.has_rows:
                break
            computed.release()
        return Partition(None, 0, self._schema, computed.release)

    def send(self, request: Request) -> Sent:
        """Send all partitions; return the number of bytes, and a failure if any.

        ``request`` is the request of the whole write.
        """
        import dask
        from distributed import as_completed

        # without what cannot be pickled
        purpose = request.purpose._replace(last_attempt=None, is_compressed=bool)
        picklable = dataclasses.replace(request, purpose=purpose, on_sent=None)
        self.rows = 0
        sent = 0
        with _begin(self._client) as write_id:
            send = functools.partial(
                _send_partition, self._job, self._schema, picklable, write_id
            )
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
                        text = f"{failure.text}, on a worker of the cluster"
                        return sent, dataclasses.replace(failure, text=text)
                    if request.on_sent is not None:
                        request.on_sent(sent)
            finally:
                self._client.cancel(futures)
        return sent, None


def find_cluster(
    service: Service, data: Any, opening: OpenOptions, compression: Compression
) -> ClusterStream | None:
    """Return a stream that workers send, or None if this process must send."""
    if not is_a(data, "dask.dataframe", "DataFrame"):
        return None
    if not service.is_picklable or service.dialect.part_bytes is None:
        return None
    import dask

    # Dask may be configured to use threads despite a cluster
    scheduler = dask.base.get_scheduler()  # type: ignore[no-untyped-call]
    client = getattr(scheduler, "__self__", None)
    if not is_a(client, "distributed", "Client"):
        return None
    if not _can_reach(service, client) or not _have_package(client):
        return None
    if not service.splits_writes:
        # the response shows the server's version
        service.list_tables()
    if not service.splits_writes:
        return None
    return ClusterStream(Job(service, opening, compression), client, data)


def _can_reach(service: Service, client: Any) -> bool:
    """Return whether workers can reach the service, which may be on this machine."""
    if not service.is_loopback:
        return True
    addresses = client.nthreads()
    return all(
        address.startswith("inproc:") or is_loopback(address) for address in addresses
    )


def _have_package(client: Any) -> bool:
    """Return whether the whole cluster has this version of the package.

    An object that cannot be unpickled would kill the workers.
    """
    try:
        on_scheduler = client.run_on_scheduler(eval, VERSION)
        on_workers = client.run(eval, VERSION, on_error="return")
        versions = [on_scheduler, *on_workers.values()]
    except ImportError as error:
        versions = [error]
    # a worker lost meanwhile returns an OSError
    if all(each == __version__ or isinstance(each, OSError) for each in versions):
        return True
    log.warning(
        "rt_frames %s is not installed on the whole cluster, so the rows pass through "
        "this process; install it there",
        __version__,
    )
    return False


def _describe(frame: Any, number: int, job: Job) -> tuple[int, pa.Schema]:
    """Return a partition's number of rows and schema; runs on a worker."""
    # raises if the worker lacks the key
    _ = job.service.session
    opening = dataclasses.replace(job.opening, table=None)
    return len(frame), open_source(Partition(frame, number), opening).plan.schema


def _send_partition(
    job: Job,
    schema: pa.Schema,
    request: Request,
    write_id: str,
    frame: Any,
    number: int,
) -> tuple[int, int, Failure | None]:
    """Send a partition; runs on a worker. Return rows, bytes, and a failure if any.

    The scheduler repeats the tasks of a worker that died. The service may have received
    the partition, so the second worker sends nothing.
    """
    if not len(frame):
        return 0, 0, None
    # the scheduler lets only one worker send a partition
    cluster = sys.modules["distributed"].get_client()
    if not cluster.run_on_scheduler(_mark, write_id, number):
        text = (
            f"table {request.purpose.table!r}: a worker was lost while it sent "
            f"partition {number}"
        )
        return 0, 0, Failure(errors.UploadInterrupted, text, repeat="anew")
    source = open_source(Partition(frame, number, schema), job.opening)
    policy = CompressionPolicy(
        job.compression, job.service.link, is_loopback=job.service.is_loopback
    )
    stream = IPCStream(source, policy)
    purpose = request.purpose._replace(is_compressed=lambda: stream.is_compressed)
    request = dataclasses.replace(request, purpose=purpose)
    try:
        sent, failure = send_parts(stream, job.service, request, number)
    finally:
        job.service.session.close()
    return stream.rows, sent, failure


# the partitions of each running write whose sending has begun; only on the scheduler,
# whose one thread makes the calls
_begun: dict[str, set[int]] = {}


@contextlib.contextmanager
def _begin(client: Any) -> Iterator[str]:
    """Register a write on the scheduler. After the block, no partition is begun.

    Partitions that are being sent are not stopped.
    """
    write_id = str(uuid.uuid4())
    client.run_on_scheduler(_add, write_id)
    try:
        yield write_id
    finally:
        # a closed scheduler keeps nothing
        with contextlib.suppress(OSError):
            client.run_on_scheduler(_remove, write_id)


def _add(write_id: str) -> None:
    _begun[write_id] = set()


def _remove(write_id: str) -> None:
    _begun.pop(write_id, None)


def _mark(write_id: str, number: int) -> bool:
    """Mark a partition as begun; runs on the scheduler. Return whether to send it.

    False if its write has ended, or if a task has begun the partition before.
    """
    begun = _begun.get(write_id)
    if begun is None or number in begun:
        return False
    begun.add(number)
    return True
