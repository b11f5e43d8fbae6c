"""A pandas or Polars dataframe becomes a remote table: ``df.remote.to_table("sales")``.

>>> import polars as pl
>>> import rt_frames as rt
>>> pl.DataFrame({"region": ["north", "south"], "sold": [3, 4]}).remote.to_table("sales").rows
2
"""

from rt_frames import errors
from rt_frames._accessor import register
from rt_frames._alterations import Alteration, AlterationPlan
from rt_frames._client import Client
from rt_frames._connect import alter_columns, connect, list_tables, plan_alterations, to_table
from rt_frames._data_types import arrow_type
from rt_frames._dtypes import data_type
from rt_frames._table import RemoteTable
from rt_frames._version import __version__

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

register()
