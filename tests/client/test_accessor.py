"""``df.remote`` exists whatever is imported first, and keeps nothing alive."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import pandas as pd
import polars as pl
import pytest

import rt_frames as rt
from tests.support.servers import KEY


def run(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={**environment}, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("order", ["rt_frames, {0}", "{0}, rt_frames"])
def test_the_accessor_is_there_whichever_is_imported_first(library, order):
    code = f"import {order.format(library)}; import {library} as lib; print(lib.DataFrame({{'a': [1]}}).remote.schema)"
    assert run(code) == "a: int64"


def test_reloading_and_importing_twice_registers_once_and_warns_never():
    code = (
        "import warnings; warnings.simplefilter('error'); import rt_frames, pandas, polars, importlib;"
        "from rt_frames._register import register; import sys;"
        "print(sum(type(f).__name__ == '_WhenImported' for f in sys.meta_path), type(pandas.__spec__.loader).__name__)"
    )
    assert run(code) == "1 SourceFileLoader"


KNOWN_WITHOUT_PANDAS = [
    "pl.Int64, pl.String(), pl.List(pl.Categorical), pl.Struct({'x': pl.Enum(['a'])}), pl.Datetime('us', 'UTC')",
    "pa.string_view(), pa.dictionary(pa.int8(), pa.string()), pa.list_(pa.uuid())",
    "int, str, bytes, float, bool, type(None), {'type': 'int64'}, {'type': 'dict:string:int8:false'}",
    "'int64', 'str', 'timestamp[us, tz=UTC]', 'decimal128(10, 2)', 'large_string', 'fixed_size_binary[3]'",
]


def test_a_process_that_only_uses_polars_never_imports_pandas(server):
    code = (
        "import sys, polars as pl, pyarrow as pa, rt_frames as rt\n"
        f"rt.connect({server.url!r})\n"
        "df = pl.DataFrame({'a': [1, 2], 's': ['x', None], 'c': pl.Series(['u', 'v'], dtype=pl.Categorical)})\n"
        "df.remote.to_table('t'); df.lazy().pipe(rt.to_table, 'u')\n"
        "after = df.rename({'s': 'text'}).cast({'a': pl.Int32})\n"
        "print(after.remote.plan_alterations(df)); after.remote.alter_table('t', df); rt.list_tables()\n"
        "rt.to_table(df, 'v', dtypes={'a': 'int8'})\n"
        f"for dtype in ({', '.join(KNOWN_WITHOUT_PANDAS)}):\n    rt.data_type(dtype)\n"
        "for dtype in (pl.Object, pa.month_day_nano_interval(), list, None, 5, 'category'):\n"
        "    try: rt.data_type(dtype)\n    except rt.errors.UnsupportedTypeError: pass\n    else: assert False, dtype\n"
        "assert 'pandas' not in sys.modules\n"
    )
    run(code, RT_FRAMES_API_KEY=KEY)
    assert [r.path for r in server.posts] == [
        "/v1/tables/t",
        "/v1/tables/u",
        "/v1/table/t/alter_columns",
        "/v1/tables/v",
    ]


def test_a_process_that_only_uses_pandas_never_imports_polars(server):
    code = (
        "import sys, pandas as pd, rt_frames as rt\n"
        f"rt.connect({server.url!r})\n"
        "pd.DataFrame({'a': [1, 2], 's': ['x', None]}).remote.to_table('t')\n"
        "for dtype in (pd.StringDtype(), pd.CategoricalDtype(['a']), 'Int64', 'datetime64[ns, UTC]', int):\n"
        "    rt.data_type(dtype)\n"
        "assert 'polars' not in sys.modules\n"
    )
    run(code, RT_FRAMES_API_KEY=KEY)


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_a_frame_is_freed_at_once_after_it_was_sent(client, library, name):
    frame = library.DataFrame({"a": [1, 2, 3], "s": ["x", None, "z"], "c": [1.5, None, 2.5]})
    gone = weakref.ref(frame)
    gc.collect()
    gc.disable()
    try:
        frame.remote.to_table(name)
        assert frame.remote.plan_alterations(frame.head(1)).to_json() == {"alterations": []}
        with pytest.raises(rt.errors.TableExistsError):
            frame.remote.to_table(name)
        del frame
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("frame", [pd.DataFrame({"a": [1]}), pl.DataFrame({"a": [1]})], ids=["pandas", "polars"])
def test_completion_shows_the_public_methods_alone(frame):
    shown = {name for name in dir(frame.remote) if not name.startswith("_")}
    assert shown == {"to_table", "tee", "alter_table", "plan_alterations", "schema"}
    assert "remote" in dir(frame)


def test_the_accessor_cannot_be_assigned():
    with pytest.raises(AttributeError):
        pl.DataFrame({"a": [1]}).remote = 1
