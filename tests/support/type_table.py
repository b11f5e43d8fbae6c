"""Write README's table of types.

Run ``python -m tests.support.type_table``. The types read back come from a table of
a folder.
"""

from __future__ import annotations

import datetime
import decimal
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import rt_frames as rt

README = Path(__file__).parents[2] / "README.md"
START = "<!-- types -->"
END = "<!-- /types -->"
SAME = "the same"

# by library: how a program spells a type, and the type
TYPES: dict[str, dict[str, object]] = {
    "pandas": {
        "`int64`, `Int64`": np.dtype("int64"),
        "`float64`, `Float64`": pd.Float64Dtype(),
        "`bool`, `boolean`": pd.BooleanDtype(),
        "`str`, `string`, `object` of text": pd.StringDtype(),
        "`datetime64[ns]`": np.dtype("datetime64[ns]"),
        "`datetime64[us, UTC]`": pd.DatetimeTZDtype("us", "UTC"),
        "`timedelta64[ns]`": np.dtype("timedelta64[ns]"),
        "`category` of text": pd.CategoricalDtype(["a"]),
        "`category` of integers": pd.CategoricalDtype([1]),
        "`category` of floats": pd.CategoricalDtype([1.5]),
        "`Period`": pd.PeriodDtype("D"),
        "`Interval`": pd.IntervalDtype("int64"),
        "`Sparse`": pd.SparseDtype("int64"),
        "`complex128`": np.dtype("complex128"),
    },
    "Polars": {
        "`String`": pl.String,
        "`Binary`": pl.Binary,
        "`Time`": pl.Time,
        '`Datetime("us", "UTC")`': pl.Datetime("us", "UTC"),
        '`Duration("us")`': pl.Duration("us"),
        "`Decimal(10, 2)`": pl.Decimal(10, 2),
        "`Categorical`, `Enum`": pl.Enum(["a"]),
        "`List(Int8)`": pl.List(pl.Int8),
        "`Array(Float32, 3)`": pl.Array(pl.Float32, 3),
        '`Struct({"x": Int8})`': pl.Struct({"x": pl.Int8}),
        "`Int128`": pl.Int128,
        "`Object`": pl.Object,
    },
    "Arrow": {
        "`string_view`": pa.string_view(),
        "`decimal32(5, 2)`, `decimal64(5, 2)`": pa.decimal32(5, 2),
        "`dictionary<int8, string>`": pa.dictionary(pa.int8(), pa.string()),
        "`list_view<int8>`": pa.list_view(pa.int8()),
        "`run_end_encoded<int32, int64>`": pa.run_end_encoded(pa.int32(), pa.int64()),
        "`dense_union`, `sparse_union`": pa.dense_union([pa.field("a", pa.int8())]),
        "`month_day_nano_interval`": pa.month_day_nano_interval(),
    },
}

OBJECTS = {  # kinds of values in a column of objects
    "`bytes`": b"a",
    "`date`": datetime.date(2024, 1, 31),
    "`time`": datetime.time(12),
    "`Decimal`": decimal.Decimal("1.50"),
    "lists": [1],
    "dicts": {"x": 1},
}


def is_refused(dtype: object) -> bool:
    try:
        rt.data_type(dtype)
    except rt.errors.UnsupportedTypeError:
        return True
    return False


def read_back(library: str, dtype: object) -> str:
    """Show the dtype of a column that is read back into its own library."""
    arrow = rt.arrow_type(rt.data_type(dtype))
    if library == "Arrow":
        return f"`{arrow}`".replace(
            "dictionary<values=string, indices=int32, ordered=0>",
            "dictionary<int32, string>",
        )
    if library == "pandas" and pa.types.is_large_string(arrow):
        return "`str`; before pandas 3 `object`"
    with (
        tempfile.TemporaryDirectory() as folder,
        rt.connect(folder, default=False) as client,
    ):
        table = client.create_table("t", pa.table({"c": pa.nulls(1, arrow)}))
        if library == "Polars":
            found = table.to_polars().dtypes[0]
            return SAME if found == dtype else f"`{found!r}`"
        plain = table.to_pandas(limit=0).dtypes.iloc[0]
        nulls = table.to_pandas().dtypes.iloc[0]
    if plain == nulls:
        return SAME if plain == dtype else f"`{plain}`"
    return f"`{plain}`, with nulls `{nulls}`"


def objects() -> str:
    """Make the row of object columns, which get the type of their values."""
    frame = pd.DataFrame(
        {kind: pd.Series([value], dtype=object) for kind, value in OBJECTS.items()}
    )
    types = frame.remote.schema.types
    sent = [f"`{rt.data_type(arrow)['type']}`" for arrow in types]
    read = [read_back("pandas", arrow) for arrow in types]
    return f"| pandas `object` of {', '.join(OBJECTS)} | {', '.join(sent)} | {', '.join(read)} |"


def table() -> str:
    """Make the whole block."""
    lines = ["| given | sent as | read back as |", "|---|---|---|"]
    refused = []
    for library, types in TYPES.items():
        same: dict[str, str] = {}
        for name, dtype in types.items():
            given = f"{library} {name}"
            if is_refused(dtype):
                refused.append(given)
                continue
            sent = f"`{rt.data_type(dtype)['type']}`"
            read = read_back(library, dtype)
            if read == SAME:
                same[name] = sent
            else:
                lines.append(f"| {given} | {sent} | {read} |")
        if same:
            names = ", ".join(same)
            lines.append(f"| {library} {names} | {', '.join(same.values())} | {SAME} |")
        if library == "pandas":
            lines.append(objects())
    lines.append(f"| {', '.join(refused)} | refused, with what to do | |")
    return "\n".join([START, *lines, END])


def main() -> None:
    """Write the block into the README."""
    text = README.read_text()
    before = text.partition(START)[0]
    after = text.partition(END)[2]
    README.write_text(before + table() + after)


if __name__ == "__main__":
    main()
