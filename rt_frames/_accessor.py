"""``df.remote``: the functions of this package as methods of a frame."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from rt_frames import _api
from rt_frames._arguments import by_keyword
from rt_frames._display import hide_traceback, share_docstring
from rt_frames._names import what_is_meant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from rt_frames._frames.frame_types import Frame
    from rt_frames._schema.alterations import AlterationPlan

FrameT = TypeVar("FrameT", bound="Frame")
P = ParamSpec("P")
T = TypeVar("T")


def _calls(
    function: Callable[Concatenate[FrameT, P], T],
) -> Callable[
    [Callable[..., None]], Callable[Concatenate[RemoteAccessor[FrameT], P], T]
]:
    """Make a method that passes its frame, and its own arguments, to a function.

    The method has the name and the docstring of what is decorated.
    """

    def decorate(
        described: Callable[..., None],
    ) -> Callable[Concatenate[RemoteAccessor[FrameT], P], T]:
        def method(
            self: RemoteAccessor[FrameT], /, *args: P.args, **options: P.kwargs
        ) -> T:
            __tracebackhide__ = True
            return function(self._frame, *args, **options)

        signature = inspect.signature(function)
        _, *others = signature.parameters.values()
        parameters = [*inspect.signature(described).parameters.values(), *others]
        shown: Any = functools.update_wrapper(method, described)
        shown.__signature__ = signature.replace(parameters=parameters)
        share_docstring(method, function)
        return method

    return decorate


class RemoteAccessor(Generic[FrameT]):
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

    def __init__(self, frame: FrameT) -> None:
        self._frame = frame

    def __repr__(self) -> str:
        frame = type(self._frame).__name__
        return (
            f"<remote methods of a {frame}: to_table, tee, alter_table, "
            "plan_alterations, schema>"
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            column = 'for a column named "remote" write df["remote"]'
            meant = what_is_meant(name, dir(type(self)), column)
            raise AttributeError(f"df.remote has no {name!r}; {meant}")

    @property
    @hide_traceback
    def schema(self) -> pa.Schema:
        """The Arrow schema that would be sent.

        Examples
        --------
        >>> import pandas as pd
        >>> pd.DataFrame({"n": [1], "s": ["x"]}).remote.schema
        n: int64
        s: large_string
        """
        return _api.schema(self._frame)

    @_calls(_api.to_table)
    def to_table(self) -> None:
        """Create a remote table from this frame, or write to an existing one.

        Parameters and errors as in `rt_frames.to_table`.

        Examples
        --------
        >>> import pandas as pd
        >>> df = pd.DataFrame({"word": ["a", "b"], "n": [1, 2]})
        >>> df.remote.to_table("words").rows
        2
        """

    @_calls(_api.tee)
    def tee(self) -> None:
        """Call `to_table` and return this frame, unchanged.

        Parameters and errors as in `rt_frames.to_table`.

        Examples
        --------
        >>> import pandas as pd
        >>> df = pd.DataFrame({"n": [1, 2, 3]})
        >>> int(df.remote.tee("numbers")["n"].sum())
        6
        """

    @by_keyword(dict="rename", list="drop_columns")
    def plan_alterations(
        self,
        before: Any,
        *,
        rename: Mapping[str, str] | None = None,
        nullable: Mapping[str, bool] | None = None,
        add_columns: bool = False,
        drop_columns: str | Sequence[str] = (),
        dtypes: Mapping[str, Any] | None = None,
        index: bool | None = None,
        clean_names: bool = False,
    ) -> AlterationPlan:
        """Plan the changes that give a table of ``before`` the columns of this frame.

        Parameters and errors as in `rt_frames.plan_alterations`.

        Examples
        --------
        >>> import pandas as pd
        >>> before = pd.DataFrame({"n": [1, 2]})
        >>> before.astype("int32").remote.plan_alterations(before).to_json()
        {'alterations': [{'path': 'n', 'data_type': {'type': 'int32'}}]}
        """
        __tracebackhide__ = True
        return _api.plan_alterations(
            before,
            self._frame,
            rename=rename,
            nullable=nullable,
            add_columns=add_columns,
            drop_columns=drop_columns,
            dtypes=dtypes,
            index=index,
            clean_names=clean_names,
        )

    @_calls(_api.alter_table)
    def alter_table(self) -> None:
        """Change a table's columns to those of this frame.

        Parameters and errors as in `rt_frames.alter_table`.

        Examples
        --------
        >>> import pandas as pd
        >>> before = pd.DataFrame({"n": [1, 2]})
        >>> _ = before.remote.to_table("counts")
        >>> before.astype("int32").remote.alter_table("counts")
        RemoteTable('counts', version 2, n: int64 to int32, at tables)
        """


share_docstring(RemoteAccessor.plan_alterations, _api.plan_alterations)
