"""``df.remote``: the functions of this package as methods of a frame."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rt_frames import _api
from rt_frames._display import hide_frames
from rt_frames._frames.any_frame import sent_schema

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from rt_frames._client import RemoteTable
    from rt_frames._schema.alterations import AlterationPlan

Frame = TypeVar("Frame")
Method = TypeVar("Method")


def _with_parameters_of(function: Callable[..., Any], frame: str) -> Callable[[Method], Method]:
    """Show a function's parameters, without its frame, in place of ``*args`` and ``**options``; and its docstring."""

    def decorate(method: Any) -> Any:
        signature = inspect.signature(method)
        parameters = {**signature.parameters, **inspect.signature(function).parameters, **signature.parameters}
        shown = [one for name, one in parameters.items() if name not in (frame, "args", "options")]
        method.__signature__ = signature.replace(parameters=sorted(shown, key=lambda one: one.kind))
        method.__doc__ = method.__doc__ or re.sub(rf"(?m)^( *){frame} : .*\n(\1 +.*\n)+", "", function.__doc__ or "")
        return method

    return decorate


class RemoteAccessor(Generic[Frame]):
    """The methods of ``df.remote``.

    Parameters
    ----------
    frame : frame
        A pandas, Polars or Dask DataFrame.

    Examples
    --------
    >>> import polars as pl
    >>> import rt_frames
    >>> pl.DataFrame({"n": [1, 2]}).remote.to_table("counted").rows
    2
    """

    __slots__ = ("_frame",)

    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    def __repr__(self) -> str:
        return (
            f"<remote methods of a {type(self._frame).__name__}: to_table, tee, alter_table, plan_alterations, schema>"
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            text = f'df.remote has no {name!r}; for a column named "remote" write df["remote"]'
            raise AttributeError(text, name=name, obj=self)

    @property
    @hide_frames
    def schema(self) -> pa.Schema:
        """The Arrow schema that would be sent.

        Examples
        --------
        >>> import pandas as pd
        >>> pd.DataFrame({"n": [1], "s": ["x"]}).remote.schema
        n: int64
        s: large_string
        """
        return sent_schema(self._frame)

    @_with_parameters_of(_api.to_table, "data")
    def to_table(self, *args: Any, **options: Any) -> RemoteTable:
        __tracebackhide__ = True
        return _api.to_table(self._frame, *args, **options)

    @_with_parameters_of(_api.to_table, "data")
    def tee(self, *args: Any, **options: Any) -> Frame:
        """Create a remote table and return this frame, unchanged; parameters and errors as in `rt_frames.to_table`.

        Examples
        --------
        >>> import pandas as pd
        >>> df = pd.DataFrame({"n": [1, 2, 3]})
        >>> int(df.remote.tee("numbers")["n"].sum())
        6
        """
        __tracebackhide__ = True
        _api.to_table(self._frame, *args, **options)
        return self._frame

    @_with_parameters_of(_api.plan_alterations, "after")
    def plan_alterations(self, before: Any, **options: Any) -> AlterationPlan:
        """Plan what `alter_table` would send; parameters and errors as in `rt_frames.plan_alterations`.

        Examples
        --------
        >>> import pandas as pd
        >>> before = pd.DataFrame({"n": [1, 2]})
        >>> before.astype("int32").remote.plan_alterations(before).to_json()
        {'alterations': [{'path': 'n', 'data_type': {'type': 'int32'}}]}
        """
        __tracebackhide__ = True
        return _api.plan_alterations(before, self._frame, **options)

    @_with_parameters_of(_api.alter_table, "data")
    def alter_table(self, *args: Any, **options: Any) -> RemoteTable:
        __tracebackhide__ = True
        return _api.alter_table(self._frame, *args, **options)
