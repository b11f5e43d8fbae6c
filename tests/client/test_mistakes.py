"""What people type in their first weeks, and how they are told what to type instead."""

from __future__ import annotations

import copy
import inspect
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rt_frames as rt

URL = "https://words-x1.us-east-1.example.com"
REFUSALS = (AttributeError, TypeError, ValueError)


class Query:
    """A query as narwhals has them."""

    def to_native(self):
        return SCOPE["df"]

    def collect(self):
        return SCOPE["df"]


SCOPE = {
    "df": pd.DataFrame({"region": ["north", "south"], "sold": [3, 4]}),
    "np": np,
    "pa": pa,
    "Path": Path,
    "pd": pd,
    "pf": pl.DataFrame({"region": ["north"], "sold": [3]}),
    "pl": pl,
    "Query": Query,
    "rt": rt,
    "URL": URL,
}
READ = "call rt.table(name).to_pandas(), .to_polars() or .scan()"
STORE = "call rt.to_table(df, name, if_exists=…)"
# what is typed → what it is told; each is refused before a request
MISTAKES = {
    # names of other libraries
    'rt.read("sales")': f"rt_frames has no 'read'; {READ}",
    'rt.read_table("sales")': f"'read_table'; {READ}",
    'rt.open_table("sales")': f"'open_table'; {READ}",
    'rt.drop_table("sales")': "'drop_table'; call rt.table(name).drop(…)",
    'rt.delete_table("sales")': "'delete_table'; call rt.table(name).drop(…)",
    'rt.create_table("sales", df)': f"'create_table'; {STORE}",
    'rt.append(df, "sales")': f"'append'; {STORE}",
    "rt.tables()": "call rt.list_tables()",
    "rt.close()": "call rt.disconnect()",
    "rt.list_table()": "call rt.list_tables()",
    "rt.Remotetable": "did you mean 'RemoteTable'?",
    "rt.tabel('sales')": "did you mean 'table'?",
    "rt.TableExistsError": "did you mean 'errors.TableExistsError'?",
    "rt.upload": "rt_frames has no 'upload'; known: 'Alteration', ",
    'df.remote.to_sql("sales")': f"df.remote has no 'to_sql'; {STORE}",
    'df.remote.upsert("sales")': STORE,
    'df.remote.read("sales")': READ,
    'df.remote.to_tabel("sales")': "did you mean 'to_table'?",
    "df.remote.Schema": "did you mean 'schema'?",
    "df.remote.sum()": 'for a column named "remote" write df["remote"]',
    'df["sold"].remote': "one column, not a frame; call .to_frame().remote",
    'pf["sold"].remote': "one column, not a frame; call .to_frame().remote",
    'client.to_table(df, "sales")': "did you mean 'create_table'?",
    'client.open_table("sales")': f"Client has no 'open_table'; {READ}",
    "client.table_names()": "call rt.list_tables()",
    "client.query": READ,
    'client["sales"]': "a client is no dict; use .table(name) and .list_tables()",
    '"sales" in client': "a client is no dict; use .table(name) and .list_tables()",
    "client.commit": "known: 'alter_columns', 'close', 'create_table', ",
    # a table is no frame
    't["sold"]': "no frame; read rows with .to_polars(), columns with .to_polars(columns=['sold'])",
    't[["sold", "region"]]': ".to_polars(columns=['sold', 'region'])",
    "t[0]": "read rows with .to_polars()",
    "list(t)": "read rows with .to_polars()",
    '"sold" in t': "read rows with .to_polars()",
    "len(t)": "use .count()",
    "if t: pass": "look for its name in rt.list_tables()",
    "t.sold": "RemoteTable has no 'sold'; read a column with .to_polars(columns=['sold'])",
    "t.region": ".to_polars(columns=['region'])",
    "t.to_panda()": "did you mean 'to_pandas'?",
    "t.tail()": READ,
    't.filter(pl.col("sold") > 3)': READ,
    't.select("sold")': READ,
    't.execute("SELECT 1")': READ,
    't.to_csv("sales.csv")': READ,
    "t.insert(df)": STORE,
    't.update({"sold": 3})': STORE,
    "t.shape": "call rt.table(name).count()",
    "t.dtypes": "call rt.table(name).schema",
    't.astype({"sold": "int32"})': "call rt.table(name).cast(…)",
    "t.versions()": "call rt.table(name).history()",
    "t.optimize()": "call rt.table(name).compact()",
    "t.checkout(1)": "call rt.table(name, version=…).restore()",
    't.drop_columns(["sold"])': "call rt.alter_table(df, name, …)",
    't.drop("sold")': "drop: got 'sold' by position; this drops the table; of columns, rt.alter_table(",
    't.drop(columns=["sold"])': "drop: no option 'columns'; this drops the table; of columns, ",
    # options
    'df.remote.to_table("sales", mode="append")': "to_table: no option 'mode'; did you mean 'if_exists'?",
    'df.remote.to_table("sales", if_exist="append")': "did you mean 'if_exists'?",
    'df.remote.to_table("sales", key="region")': "did you mean 'on'?",
    'df.remote.to_table("sales", dtype={"sold": "int8"})': "did you mean 'dtypes'?",
    'df.remote.to_table("sales", chunksize=1)': "no option 'chunksize'; known: 'add_columns', ",
    'client.create_table("sales", df, mode="append")': "did you mean 'if_exists'?",
    "t.to_pandas(n=3)": "to_pandas: no option 'n'; did you mean 'limit'?",
    't.to_pandas(filters=[("sold", ">", 3)])': "did you mean 'where'?",
    't.scan("sold")': "scan: got 'sold' by position; use .scan().filter(…) and .select(…)",
    't.rename("sold", "units")': "rename: got 'units' by position; pass a dict, such as {'old': 'new'}",
    't.rename(sold="units")': "rename: no option 'sold'; pass a dict, such as {'old': 'new'}",
    't.cast({"sold": "int32"}, rewirte=True)': "did you mean 'rewrite'?",
    't.cast(["sold"])': "dtypes: expected a dict, such as {'column': …}, got ['sold']",
    "t.set_nullable(sold=False)": "pass a dict, such as {'column': False}",
    "t.restore(1)": "restore a version by rt.table(name, version=…).restore()",
    "t.compact(True)": "compact: got True by position; pass it as purge=True",
    # by position
    'df.remote.to_table("sales", "replace")': "by position; pass it as if_exists='replace'",
    'df.remote.tee("sales", "replace")': "pass it as if_exists='replace'",
    'rt.to_table(df, "sales", "replace")': "pass it as if_exists='replace'",
    'rt.tee(df, "sales", "replace")': "pass it as if_exists='replace'",
    'client.create_table("sales", df, "replace")': "pass it as if_exists='replace'",
    'rt.to_table(df, "sales", 1.5)': "to_table: got 1.5 by position; pass it by its keyword, one of if_exists, on, ",
    't.to_pandas(pl.col("sold") > 3)': "pass it as where=<Expr",
    't.to_polars(pl.col("sold") > 3)': "pass it as where=<Expr",
    't.to_arrow(pl.col("sold") > 3, 5)': "pass it as where=<Expr",
    't.to_polars(["sold"])': "pass it as columns=['sold']",
    "t.to_pandas(5)": "pass it as limit=5",
    'rt.table("sales", 1)': "pass it as version=1",
    'client.table("sales", 1)': "pass it as version=1",
    'rt.alter_table(df, "sales", df, {"n": "m"})': "pass it as rename={'n': 'm'}",
    'rt.plan_alterations(df, df, {"n": "m"})': "pass it as rename={'n': 'm'}",
    'df.remote.alter_table("sales", df, {"n": "m"})': "pass it as rename={'n': 'm'}",
    'df.remote.plan_alterations(df, {"n": "m"})': "pass it as rename={'n': 'm'}",
    "rt.list_tables(client)": "pass it as client=Client(",
    'rt.table("sales", client)': "pass it as client=Client(",
    'rt.alter_columns("sales", [], client)': "pass it as client=Client(",
    # in place of a frame
    'rt.to_table(df["sold"], "sales")': "pandas.Series is one column; make it a frame first, with .to_frame()",
    'rt.to_table(pf["sold"], "sales")': "polars.Series is one column; make it a frame first, with .to_frame()",
    'rt.to_table(df.columns, "sales")': "pandas.Index is one column; make it a frame first, with .to_frame()",
    'rt.to_table(df.groupby("region"), "sales")': "DataFrameGroupBy is not a dataframe; aggregate it first, with .agg(…)",
    'rt.to_table(pf.group_by("region"), "sales")': "polars.GroupBy is not a dataframe; aggregate it first, with .agg(…)",
    'rt.to_table(pd.DataFrame, "sales")': "data: type is not a dataframe; pass a pandas, ",
    'rt.to_table(pl.DataFrame, "sales")': "data: type is not a dataframe; pass a pandas, ",
    'rt.to_table({"n": [1]}, "sales")': "dict is not a dataframe; make one first, for example pandas.DataFrame(data)",
    'rt.to_table([{"n": 1}], "sales")': "dict is not a dataframe; make one first, for example pandas.DataFrame(data)",
    'rt.to_table(np.array([1]), "sales")': "numpy.ndarray is not a dataframe; make one first",
    'rt.to_table(pa.array([1]), "sales")': "one column; make it a table first, for example pyarrow.table(",
    'rt.to_table(Path("a.csv"), "sales")': "if it is a file, pass for example polars.scan_csv('a.csv')",
    'rt.to_table(Query(), "sales")': ".to_native(), or .collect()",
    'rt.to_table("sales", df)': "data and name are exchanged; call rt.to_table(df, 'sales')",
    'rt.plan_alterations({"n": "new"}, df)': "pass rename={'n': 'new'}",
    'rt.plan_alterations("sales", df)': "for a table pass rt.table('sales')",
    # values of options
    'df.remote.to_table("sales", if_exists="overwrite")': 'if_exists: expected "fail" or "skip", got \'overwrite\'',
    'df.remote.to_table("sales", index="no")': "index: expected True or False, got 'no'",
    'df.remote.to_table("sales", dtypes="int32")': 'dtypes: expected a dict such as {"price": "float32"}, got str',
    'df.remote.to_table("sales", dtypes={"sold": "bigint"})': "column 'sold': dtype 'bigint' is unknown; did you mean \"int64\"?",
    'df.remote.to_table("sales", dtypes={"sold": "datetime64"})': "column 'sold': NumPy's datetime64 cannot be sent; use a unit of ",
    'df.remote.to_table("sales", client="./tables")': "client: expected a Client, as rt.connect() returns, got './tables'",
    'rt.table("a/b")': "name: must not contain / or",
    # connecting
    'rt.connect(URL, "secret")': "pass the key as api_key=…",
    'rt.connect(URL, token="secret")': "connect: no option 'token'; did you mean 'api_key'?",
    'rt.connect(url=URL, api_key="secret")': "connect: no option 'url'; did you mean 'target'?",
    'rt.connect("tables")': "'tables' is neither a URL nor a folder; write https://, http:// or ./ before it",
    'rt.connect("s3://bucket/tables")': "expected https://HOST, http://HOST or a folder",
    'rt.connect("http://words.example.com", api_key="secret")': "unencrypted; use https, or allow_insecure=True",
    'rt.connect(f"{URL}/v1", api_key="secret")': "has the path /v1, which every request adds; leave it out",
    'rt.connect(f"{URL}/v1/tables/", api_key="secret")': "has the path /v1, which every request adds; leave it out",
    'rt.connect(URL, api_key="secret", dialect="lance")': 'expected "documented" or "lancedb", got \'lance\'',
    'rt.connect("./tables", api_key="secret")': "api_key: a folder needs no key; leave it out",
}
# the same, of a table in a folder
OF_A_TABLE = {
    't.to_pandas(where="sold > 3")': "where: 'sold > 3' is text, which is not read; nothing was sent; write where=pl.sql_expr(",
    't.delete(df["sold"] > 3)': 'where: Series is no condition; nothing was sent; pass an expression such as pl.col("n") > 1',
    't.delete([("sold", "gt", 3)])': "column 'sold': unknown operator 'gt'; expected (column, op, value), op one of ",
    't.delete(pl.col("slod") > 3)': "where: the table has no column 'slod'; did you mean 'sold'?",
    't.to_pandas(columns=["slod"])': "columns: table 'sales' has no column 'slod'; did you mean 'sold'?",
    't.to_pandas(columns={"sold": "units"})': "columns: expected the name of a column, or a list of names, each once, got {'sold': 'units'}",
    't.head("5")': "n: expected a whole number from 0, got '5'",
    't.rename({"slod": "units"})': "unknown column 'slod' (did you mean 'sold'?)",
    "t.restore()": "choose one of .history(): rt.table('sales', version=…).restore()",
    'client.table("sales", version="2026-01-01")': "version: '2026-01-01' is no number, and no datetime with a zone; pass one, such as ",
    'client.table("sale").head()': "table 'sale' does not exist; check the name in rt.list_tables()",
    'store(if_exists="overwrite")': 'if_exists: expected "fail", "skip", "replace", "append" or "upsert", got ',
    'store(if_exists="upsert")': "on: an upsert needs the column",
    'store(if_exists="upsert", on="reigon")': "on: the frame has no column 'reigon'; did you mean 'region'?",
    'store(if_exists="upsert", on=["region", "region"])': "on: expected the name of a column, or a list of names, each once, got ['region', 'region']",
    'store(if_exists="upsert", on={"region": 1})': "on: expected the name of a column, or a list of names, each once, got {'region': 1}",
    'store(if_exists="upsert", on=pl.col("region"))': "or a list of names, each once, got <Expr",
    'store(on="region")': 'on: only if_exists="upsert" has keys; leave it out',
    "store()": "table 'sales' already exists; nothing was stored; choose another name, or pass if_exists=\"skip\", ",
    'alter(rename={"typo": "a"})': "rename: 'typo' is not a column of both the table and the frame; known: 'region', 'sold'",
    'alter(drop_columns={"sold": 1})': "drop_columns: expected the name of a column, or a list of names, each once, got {'sold': 1}",
}


@pytest.mark.parametrize(("typed", "told"), MISTAKES.items())
def test_a_mistake_is_told_what_where_and_what_to_type_instead(typed, told):
    with (
        rt.connect(URL, api_key="secret") as client,
        pytest.raises(REFUSALS) as refused,
    ):
        exec(typed, {**SCOPE, "client": client, "t": rt.table("sales")})
    assert told in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(("typed", "told"), OF_A_TABLE.items())
def test_a_mistake_about_a_table_leaves_it_as_it_is(place, typed, told):
    client = place.client
    df = SCOPE["df"]
    table = client.create_table("sales", df, if_exists="replace")
    scope = {
        **SCOPE,
        "client": client,
        "t": client.table("sales"),
        "store": lambda **options: client.create_table("sales", df, **options),
        "alter": lambda **options: rt.alter_table(
            df, "sales", client=client, **options
        ),
    }
    with pytest.raises((*REFUSALS, rt.errors.RemoteError)) as refused:
        exec(typed, scope)
    assert told in str(refused.value)
    assert place.open("sales").version == table.version


def test_each_method_of_a_table_is_found_where_it_is_not():
    for name, _ in inspect.getmembers(rt.RemoteTable, inspect.isfunction):
        if name[0] != "_" and not hasattr(rt, name):
            with pytest.raises(AttributeError, match=rf"rt\.table\(name\)\.{name}\("):
                getattr(rt, name)


def test_a_table_that_is_no_frame_is_still_read_by_other_libraries_and_copied(place):
    stored = place.client.create_table("read", SCOPE["pf"])
    rows = SCOPE["pf"].to_dicts()
    assert pl.DataFrame(stored).to_dicts() == pa.table(stored).to_pylist() == rows
    assert duckdb.sql("FROM stored").pl().to_dicts() == rows
    assert np.asarray(stored).item() is stored
    assert pd.Series([stored])[0] is stored
    assert copy.copy(stored) == copy.deepcopy(stored) == stored
