"""A user's program, which only type checkers read.

It imports the accessor's class, because the class has no public name and type checkers
do not see ``frame.remote``.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import assert_type

import pandas as pd
import polars as pl
import pyarrow as pa

import rt_frames as rt
from rt_frames._accessor import RemoteAccessor
from rt_frames.local import LocalService

client = rt.connect(
    "https://words-x1.us-east-1.example.com",
    api_key="k",
    timeout=(5, 30, 60),
    default=False,
)
assert_type(client, rt.Client)

pandas_frame = pd.DataFrame({"a": [1, 2]})
polars_frame = pl.DataFrame({"a": [1, 2]})

table = rt.to_table(
    pandas_frame,
    "t",
    client=client,
    dtypes={"a": "int32"},
    index=False,
    clean_names=True,
)
assert_type(table, rt.RemoteTable)
rt.to_table(polars_frame, "t", compression="zstd", progress=False)
rt.to_table(polars_frame.lazy(), "t", compression=None)
rt.to_table(pa.table({"a": [1]}), "t")
assert_type(polars_frame.lazy().pipe(rt.to_table, "t"), rt.RemoteTable)

# neither a list of numbers nor a name is a frame
rt.to_table([1, 2], "t")  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
rt.to_table("t", "t")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
rt.to_table([pandas_frame, pandas_frame], "t")
rt.to_table((polars_frame for _ in range(2)), "t")
assert_type(polars_frame.lazy().pipe(rt.tee, "t"), pl.LazyFrame)
assert_type(rt.schema(polars_frame.lazy()), pa.Schema)

rt.to_table(polars_frame, "t", if_exists="replace")
rt.to_table(polars_frame, "t", if_exists="replace", where=pl.col("a") == 1)
rt.to_table(polars_frame, "t", if_exists="replace", where=[("a", "in", [1, 2])])
assert_type(table.deleted, int | None)
rt.to_table(polars_frame, "t", if_exists="upsert", on=["a"], add_columns=True)
assert_type(rt.table("t").delete(pl.col("a") == 1), int | None)
rt.table("t").count([[("a", ">", 1)], [("b", "in", ["x"])]])
either: list[list[tuple[str, str, int]]] = [[("a", ">", 1)]]
rt.table("t").to_polars(where=either)
assert_type(rt.table("t", version=3).restore(), rt.RemoteTable)
yesterday = datetime.now(UTC) - timedelta(days=1)
assert_type(rt.table("t", version=yesterday), rt.RemoteTable)
assert_type(client.table("t", version=pd.Timestamp.now("UTC")), rt.RemoteTable)
history = rt.table("t").history(limit=10)
assert_type(history, tuple[rt.Version, ...])
assert_type(history[0].version, int)
assert_type(history[0].time, datetime)
assert_type(history[0].operation, str | None)
assert_type(history[0].rows, int | None)
assert_type(rt.table("t").compact(purge=True), rt.RemoteTable)
assert_type(
    rt.alter_table(
        polars_frame.lazy(), "t", pandas_frame, rename={"a": "b"}, rewrite=True
    ),
    rt.RemoteTable,
)
rt.connect("https://words-x1.us-east-1.example.com", api_key="k", dialect="lancedb")

assert_type(rt.table("t", client=client), rt.RemoteTable)
assert_type(table.schema, pa.Schema | None)
assert_type(table.name, str)
assert_type(table.rows, int | None)
assert_type(table.created, bool | None)
assert_type(
    table.rename({"a": "b"}).cast({"b": pl.Int16}).set_nullable({"b": False}),
    rt.RemoteTable,
)

assert_type(
    table.to_pandas(columns=["a"], where=pl.col("a") > 1, limit=1), pd.DataFrame
)
assert_type(
    table.to_polars(where=(pl.col("a") == 1) | (pl.col("b") < date(2024, 3, 1))),
    pl.DataFrame,
)
assert_type(table.to_arrow(limit=0), pa.Table)
assert_type(table.columns, list[str])
assert_type(table.head(), pl.DataFrame)
assert_type(table.scan().filter(pl.col("a") > 1).collect(), pl.DataFrame)
assert_type(table.scan().pipe(rt.to_table, "t", if_exists="replace"), rt.RemoteTable)
assert_type(table.count(), int)
assert_type(table.count([("a", "in", (1, 2))]), int)
table.drop()

assert_type(rt.list_tables(client=client), list[str])
plan = rt.plan_alterations(
    pandas_frame,
    polars_frame,
    rename={"a": "b"},
    nullable={"a": True},
    add_columns=True,
)
assert_type(plan, rt.AlterationPlan)
assert_type(plan[0], rt.Alteration)
assert_type(plan[:1], list[rt.Alteration])
assert_type(plan.changes, tuple[rt.Alteration, ...])
assert_type(plan.dropped, tuple[str, ...])
assert_type(bool(plan), bool)
assert_type(rt.alter_columns("t", plan), rt.RemoteTable)
assert_type(rt.alter_columns("t", plan.to_json()), rt.RemoteTable)
assert_type(
    rt.alter_columns(
        "t", [{"path": "a", "rename": "b"}, rt.Alteration("c", data_type=int)]
    ),
    rt.RemoteTable,
)

assert_type(RemoteAccessor(pandas_frame).tee("t", index=False), pd.DataFrame)
assert_type(RemoteAccessor(polars_frame).tee("t"), pl.DataFrame)
assert_type(
    RemoteAccessor(polars_frame).plan_alterations(pandas_frame), rt.AlterationPlan
)
assert_type(RemoteAccessor(polars_frame).alter_table("t"), rt.RemoteTable)


def stored(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    rt.to_table(frame, name)
    return frame


assert_type(polars_frame.pipe(stored, "t"), pl.DataFrame)

rt.arrow_type({"type": "int64"})
rt.data_type(pa.int64())

try:
    rt.to_table(polars_frame, "t")
except rt.errors.UploadInterrupted as error:
    assert_type(error.bytes_sent, int)
    assert_type(error.listed, bool | None)
except rt.errors.RateLimited as error:
    assert_type(error.retry_after, float | None)
except rt.errors.ResponseError as error:
    assert_type(error.status, int)
    assert_type(error.table, str | None)

with (
    LocalService("./tables", port=8080) as service,
    rt.connect(service.url, api_key=service.api_key) as local,
):
    assert_type(service.url, str)
    assert_type(local, rt.Client)
