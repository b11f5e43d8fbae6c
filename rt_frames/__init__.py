"""A pandas or Polars dataframe becomes a remote table: ``df.remote.to_table("sales")``.

>>> import polars as pl
>>> import rt_frames as rt
>>> pl.DataFrame({"region": ["north", "south"], "sold": [3, 4]}).remote.to_table("sales").rows
2
"""

from rt_frames._register import register
from rt_frames._version import __version__

TYPE_CHECKING = False  # as typing says it, whose import takes longer than all of this
if TYPE_CHECKING:
    from rt_frames import errors
    from rt_frames._alterations import Alteration, AlterationPlan
    from rt_frames._client import Client
    from rt_frames._connect import alter_columns, connect, list_tables, plan_alterations, to_table
    from rt_frames._data_types import arrow_type
    from rt_frames._dtypes import data_type
    from rt_frames._table import RemoteTable

__all__ = [
    "Alteration",
    "AlterationPlan",
    "Client",
    "RemoteTable",
    "__version__",
    "alter_columns",
    "arrow_type",
    "connect",
    "data_type",
    "errors",
    "list_tables",
    "plan_alterations",
    "to_table",
]

_ROOMS = {
    "_alterations": ("Alteration", "AlterationPlan"),
    "_client": ("Client",),
    "_connect": ("alter_columns", "connect", "list_tables", "plan_alterations", "to_table"),
    "_data_types": ("arrow_type",),
    "_dtypes": ("data_type",),
    "_table": ("RemoteTable",),
    "errors": (),
}


def __getattr__(name: str) -> object:
    """Open the room of a public name when it is first asked for."""
    import importlib

    for room, names in _ROOMS.items():
        if name == room or name in names:
            module = importlib.import_module(f"{__name__}.{room}")
            found: object = module if name == room else getattr(module, name)
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


register()
