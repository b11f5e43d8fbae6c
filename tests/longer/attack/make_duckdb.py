"""Draw DuckDB queries: every type of its own, its nestings, and the settings that change what Arrow it hands out."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

import duckdb

if TYPE_CHECKING:
    import random

    import pyarrow as pa

LITERALS = {
    "TINYINT": "-128 127 0", "SMALLINT": "-32768 5", "INTEGER": "1 -2147483648", "BIGINT": "9223372036854775807 0",
    "HUGEINT": "12345678901234567890 -1", "UHUGEINT": "7 0", "UTINYINT": "255 0", "USMALLINT": "65535 1",
    "UINTEGER": "4294967295 0", "UBIGINT": "18446744073709551615 1", "BIGNUM": "123456789012345678901234567890 0",
    "FLOAT": "1.5 nan inf -0.0", "DOUBLE": "0.1 -inf 1e300", "DECIMAL(4,1)": "123.4 -0.1", "DECIMAL(9,3)": "1.125 0",
    "DECIMAL(18,6)": "123456789012.5 0", "DECIMAL(38,10)": "1234567890123456789012345678.0123456789 0",
    "BOOLEAN": "true false", "VARCHAR": "a Ä longer_than_twelve_bytes null", "BLOB": r"\xFF ab", "BIT": "101 0",
    "DATE": "2020-02-29 0001-01-01 9999-12-31", "TIME": "12:34:56.789012 00:00:00", "TIMETZ": "12:00:00+02",
    "TIME_NS": "12:34:56.789012345", "TIMESTAMP": "2020-01-01T05:06:07.123456 1969-12-31T23:59:59.999999",
    "TIMESTAMP_S": "2020-01-01T05:06:07", "TIMESTAMP_MS": "2020-01-01T05:06:07.123",
    "TIMESTAMP_NS": "2020-01-01T05:06:07.123456789", "TIMESTAMPTZ": "2020-06-01T05:06:07+02",
    "INTERVAL": "1_day 2_months", "UUID": "8c0f3a90-4b1a-4c2e-9c1e-0123456789ab", "JSON": '{"a":1} [1,null] 3',
    "ENUM('low','high','')": "low high", "VARIANT": "7 8",
}  # fmt: skip
SETTINGS = {
    "arrow_large_buffer_size": ["true", "false"],
    "arrow_lossless_conversion": ["true", "false"],
    "arrow_output_list_view": ["true", "false"],
    "arrow_output_version": ["'1.0'", "'1.4'", "'1.5'"],
}


@dataclasses.dataclass
class Query:
    """A query, the settings it runs with, and the connection that is kept open for it."""

    sql: str
    settings: dict[str, str]

    def __post_init__(self) -> None:
        self.connection = duckdb.connect()
        self.connection.execute("SET threads = 1")
        for name, value in self.settings.items():
            self.connection.execute(f"SET {name} = {value}")

    def relation(self) -> duckdb.DuckDBPyRelation:
        return self.connection.sql(self.sql)

    def table(self) -> pa.Table:
        """Give what DuckDB itself hands to Arrow."""
        return self.relation().to_arrow_table()

    def __repr__(self) -> str:
        return f"duckdb {self.settings}: {self.sql}"


def literal(r: random.Random, type_: str) -> str:
    """Draw a value of a type."""
    text = r.choice(LITERALS[type_].split())
    return f"'{text.replace('_', ' ') if type_ == 'INTERVAL' else text}'::{type_}"


def nested(r: random.Random, type_: str, shape: str) -> str:
    """Draw one value of a shape: a scalar, a list, an array, a struct, a map or a union around it."""
    if r.random() < 0.15:
        return "NULL"
    draw = functools.partial(literal, r, type_)
    if shape == "list":
        return f"[{', '.join(r.choice([draw(), 'NULL']) for _ in range(r.randrange(4)))}]"
    if shape == "array":
        return f"[{draw()}, {r.choice([draw(), 'NULL'])}]"
    if shape == "struct":
        return f"{{'a': {draw()}, 'b': {r.randrange(9)}}}"
    if shape == "map":
        return f"map {{'k{r.randrange(9)}': {r.choice([draw(), 'NULL'])}}}"
    if shape == "list of structs":
        return f"[{{'a': {draw()}}}, NULL]"
    return draw() if shape == "scalar" else f"union_value(u := {draw()})"


SHAPES = {
    "scalar": "{0}", "list": "{0}[]", "array": "{0}[2]", "struct": "STRUCT(a {0}, b INTEGER)",
    "map": "MAP(VARCHAR, {0})", "list of structs": "STRUCT(a {0})[]", "union": "UNION(u {0})",
}  # fmt: skip


def query(r: random.Random, rows: int) -> Query:
    """Make a query of one to three drawn columns."""
    shapes = [*(list(SHAPES)[:-1] * 6), "union"]
    columns = [(r.choice(list(LITERALS)), r.choice(shapes)) for _ in range(r.choice([1, 1, 2, 3]))]
    settings: dict[str, Any] = {name: r.choice(choices) for name, choices in SETTINGS.items() if r.random() < 0.4}
    if rows > 1000:
        type_, shape = columns[0]
        drawn = f"(CASE i % 7 WHEN 0 THEN NULL ELSE {nested(r, type_, shape)} END)::{SHAPES[shape].format(type_)}"
        return Query(f"SELECT {drawn} AS col_0, i AS col_1 FROM range({rows}) t(i)", settings)
    casts = ", ".join(f"v{i}::{SHAPES[shape].format(type_)} AS col_{i}" for i, (type_, shape) in enumerate(columns))
    lines = [f"({', '.join(nested(r, *column) for column in columns)})" for _ in range(max(rows, 1))]
    names = ", ".join(f"v{i}" for i in range(len(columns)))
    where = " WHERE false" if rows == 0 else ""
    return Query(f"SELECT {casts} FROM (VALUES {', '.join(lines)}) t({names}){where}", settings)
