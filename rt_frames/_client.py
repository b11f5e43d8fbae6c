"""Client and RemoteTable: the service's three endpoints, each journey on one screen.

The paths are those of the service's documentation, which writes ``tables`` for the collection and for
creation, and ``table`` for what is done to one table.
"""

from __future__ import annotations

import json
import logging
import time
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from rt_frames import errors
from rt_frames._endpoint import Endpoint
from rt_frames._frames import ipc
from rt_frames._frames.any_frame import open_source
from rt_frames._frames.compression import Compression, CompressionPolicy, check_compression
from rt_frames._http.call import Call, upload_of
from rt_frames._http.options import check_if_exists, check_table_name
from rt_frames._http.response import certain_now, names_in, version_in
from rt_frames._progress import Progress
from rt_frames._schema.alterations import Alteration, AlterationPlan, as_json
from rt_frames._table import RemoteTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rt_frames._frames.source import Source

log = logging.getLogger("rt_frames")

LARGE = 8 * 2**20  # bytes; before more than that is sent, the client looks whether it may be
JSON = "application/json"
IfExists = Literal["fail", "skip"]


class Client(Endpoint):
    """A connection to one project of the service; `connect` makes it.

    Parameters
    ----------
    url : str
        ``https://{db}.{region}.<service-domain>``, as the service's documentation gives it.
    api_key : str
        Goes into the ``x-api-key`` header of every request, and shows nowhere else.
    timeout : float or tuple of float, optional
        Seconds: one number, or ``(connect, write, read)``: to connect, for each piece of at most 1 MiB to
        leave, for the whole answer to arrive. Defaults to ``(10, 60, 300)``.
    retries : int, default 2
        How often a request is sent again where that cannot do it twice.
    headers : dict of str to str, optional
        Further headers for every request.
    verify : bool or str, default True
        Whether the server's certificate is checked; a path names a CA bundle to check it against.
    allow_insecure : bool, default False
        Allow plain ``http`` to another machine, where everybody on the way can read the key.

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it.

    Notes
    -----
    The service's documentation gives the form of the address and the name of the header.

    Examples
    --------
    >>> import rt_frames as rt
    >>> with rt.Client("https://words-x1.us-east-1.example.com", api_key="made-up") as client:
    ...     print(client)
    https://words-x1.us-east-1.example.com
    """

    def table(self, name: str) -> RemoteTable:
        """Name an existing table, without asking the service.

        Parameters
        ----------
        name : str
            The table's name.

        Returns
        -------
        RemoteTable
            Which knows its name alone.

        Examples
        --------
        >>> import rt_frames as rt
        >>> rt.connect(default=False).table("readings").rename({"at": "time"}).version
        2
        """
        check_table_name(name)
        return RemoteTable(name, self)

    def list_tables(self) -> list[str]:
        """List the names of the project's tables.

        Returns
        -------
        list of str
            In the order in which the service gives them.

        Raises
        ------
        RemoteError
            If the service cannot be reached, refuses the key, or answers what cannot be understood.

        Examples
        --------
        >>> import rt_frames as rt
        >>> rt.connect(default=False).list_tables()
        ['readings']
        """
        return self._list()

    def create_table(
        self,
        name: str,
        data: Any,
        *,
        dtypes: Mapping[str, Any] | None = None,
        index: bool | None = None,
        if_exists: IfExists = "fail",
        compression: Compression = "auto",
        progress: bool | None = None,
    ) -> RemoteTable:
        """Create a table from any frame, as `rt_frames.to_table` does, which says more of the options.

        Parameters
        ----------
        name : str
            The new table's name.
        data : frame
            Whatever `rt_frames.to_table` takes.
        dtypes, index, if_exists, compression, progress : optional
            As in `rt_frames.to_table`.

        Returns
        -------
        RemoteTable
            What was sent, and what the service answered.

        Raises
        ------
        ValueError, TypeError
            If an argument, a column's name or its type cannot be used; nothing was sent.
        RemoteError
            For everything else that can fail; `rt_frames.errors` shows the tree.

        Examples
        --------
        >>> import polars as pl
        >>> import rt_frames as rt
        >>> rt.connect(default=False).create_table("counted", pl.DataFrame({"n": [1, 2]})).rows
        2
        """
        check_table_name(name)
        check_if_exists(if_exists)
        check_compression(compression)
        source = open_source(data, dtypes=dtypes, index=index)
        try:
            listed_before = self._look_first(name, source, if_exists)
            if listed_before and if_exists == "skip":
                return RemoteTable(name, self, created=False)
            return self._create(name, source, compression, progress, listed_before)
        except errors.TableExistsError:
            if if_exists == "skip":
                return RemoteTable(name, self, created=False)
            raise
        finally:
            source.close()

    def alter_columns(
        self, name: str, alterations: AlterationPlan | Alteration | Mapping[str, Any] | Iterable[Any]
    ) -> RemoteTable:
        """Change columns of a table, all of them or none, in one request.

        Parameters
        ----------
        name : str
            The table.
        alterations : AlterationPlan, Alteration, dict of the service's form, or several of them
            What to change. An empty plan is not sent.

        Returns
        -------
        RemoteTable
            The table, with the version that the service answered.

        Raises
        ------
        ValueError, TypeError
            If an alteration changes nothing or is malformed; nothing was sent.
        RemoteError
            For everything else that can fail; `rt_frames.errors` shows the tree.

        Examples
        --------
        >>> import rt_frames as rt
        >>> rt.connect(default=False).alter_columns("readings", rt.Alteration("at", data_type="int32")).version
        2
        """
        check_table_name(name)
        if isinstance(alterations, AlterationPlan) and not alterations:
            return RemoteTable(name, self, created=False)
        body = json.dumps(as_json(alterations), allow_nan=False).encode()
        start = time.monotonic()
        call = Call(
            "alter", "POST", f"/v1/table/{quote(name, safe='')}/alter_columns", JSON, version_in, table=name,
            upload=lambda: upload_of(lambda: [[body]], len(body), self._session.timeouts.write),
        )  # fmt: skip
        try:
            done = self._session.perform(call)
        except (errors.OutcomeUnknown, errors.ServerError) as error:
            error.args = (f"{error}; look at the table's columns before sending the change again",)
            raise
        log.info("altered table %s, %.0f ms, %s", name, (time.monotonic() - start) * 1000, done.request_id)
        return RemoteTable(name, self, version=done.value, request_id=done.request_id, created=False)

    def _list(self, retries: int | None = None) -> list[str]:
        names: list[str] = []
        token, seen = None, set()
        while True:
            path = "/v1/tables" if token is None else f"/v1/tables?page_token={quote(token, safe='')}"
            done = self._session.perform(Call("list", "GET", path, JSON, names_in), retries)
            names += done.value[0]
            token = done.value[1]
            if token is None:
                return names
            if token in seen:
                text = "could not list tables: the service gave the same page_token twice, the list would never end"
                raise errors.ResponseError(text, status=200, request_id=done.request_id, attempts=1)
            seen.add(token)

    def _look_first(self, name: str, source: Source, if_exists: IfExists) -> bool | None:
        """List before much is sent: a wrong address, key or name costs one small request, not gigabytes."""
        if if_exists == "fail" and source.nbytes is not None and source.nbytes <= LARGE:
            return None
        try:
            listed = name in self._list()
        except errors.RemoteError as error:
            error.add(table=name, rows=source.rows)
            raise
        if listed and if_exists == "fail":
            text = f'table {name!r} exists already; nothing was sent; choose another name, or if_exists="skip"'
            raise errors.TableExistsError(text, table=name, rows=source.rows, attempts=1)
        return listed

    def _create(
        self, name: str, source: Source, compression: Compression, progress: bool | None, listed_before: bool | None
    ) -> RemoteTable:
        policy = CompressionPolicy(compression, fast_link=self._fast)
        stream = ipc.IPCStream(source, policy)
        start = time.monotonic()
        with Progress(progress, stream.length, name) as bar:

            def body() -> Iterable[Any]:
                bar.start()
                return stream

            def sent(size: int, seconds: float) -> None:
                bar.update(size, stream.rows)
                policy.record_write(size, seconds)

            call = Call(
                "create", "POST", f"/v1/tables/{quote(name, safe='')}", ipc.MIME, version_in, table=name,
                upload=lambda: upload_of(body, stream.length, self._session.timeouts.write, sent),
                repeatable=source.replayable, rows=source.rows,
            )  # fmt: skip
            try:
                done = self._session.perform(call)
            except (errors.UploadInterrupted, errors.OutcomeUnknown, errors.ServerError) as error:
                self._tell_listed(error, name, listed_before)
                raise
        taken = (time.monotonic() - start) * 1000
        log.info("created table %s, %d bytes, %.0f ms, %s", name, done.sent, taken, done.request_id)
        return RemoteTable(name, self, source.schema, stream.rows, done.sent, done.value, True, done.request_id)

    def _tell_listed(
        self,
        error: errors.UploadInterrupted | errors.OutcomeUnknown | errors.ServerError,
        name: str,
        before: bool | None,
    ) -> None:
        """Look once more after an open outcome, and say what is certain now; nothing is sent again."""
        try:
            listed = name in self._list(retries=0)
        except errors.RemoteError:
            listed = None
        part_alone = isinstance(error, errors.UploadInterrupted)
        now = certain_now(name, listed=listed, before=before, part_alone=part_alone)
        error.add(listed=listed, listed_before=before)
        error.args = (f"{error}; {now}",)
