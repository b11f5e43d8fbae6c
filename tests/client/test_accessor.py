"""``df.remote`` exists whatever is imported first, and keeps nothing alive."""

from __future__ import annotations

import copy
import gc
import inspect
import os
import re
import subprocess
import sys
import weakref

import pandas as pd
import polars as pl
import pytest

import rt_frames as rt
from tests.support.servers import KEY


def run(
    code: str, *options: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, *options, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={
            **{k: v for k, v in os.environ.items() if k == "PYTHONPATH"},
            **environment,
        },
    )
    assert done.returncode == 0, done.stderr
    return done


KNOWN_WITHOUT_PANDAS = [
    "pl.Int64, pl.String(), pl.List(pl.Categorical), pl.Struct({'x': pl.Enum(['a'])})",
    "pl.Datetime('us', 'UTC')",
    "pa.string_view(), pa.dictionary(pa.int8(), pa.string()), pa.list_(pa.uuid())",
    "int, str, bytes, float, bool, type(None)",
    "{'type': 'int64'}, {'type': 'dict:string:int8:false'}",
    "'int64', 'str', 'timestamp[us, tz=UTC]', 'decimal128(10, 2)', 'large_string'",
    "'fixed_size_binary[3]'",
]


def test_who_imports_polars_first_has_the_accessor_and_never_loads_pandas(server):
    code = (
        "import sys, polars as pl, rt_frames as rt\n"
        "c = pl.Series(['u', 'v'], dtype=pl.Categorical)\n"
        "df = pl.DataFrame({'a': [1, 2], 's': ['x', None], 'c': c})\n"
        "assert 'remote' in dir(df) and 'remote' in pl.DataFrame._accessors\n"
        "assert not {'pyarrow', 'requests'} & set(sys.modules)\n"
        f"rt.connect({server.url!r})\n"
        "df.remote.to_table('t'); df.lazy().pipe(rt.to_table, 'u')\n"
        "after = df.rename({'s': 'text'}).cast({'a': pl.Int32})\n"
        "print(after.remote.plan_alterations(df, rename={'s': 'text'}))\n"
        "after.remote.alter_table('t', df, rename={'s': 'text'}); rt.list_tables()\n"
        "rt.to_table(df, 'v', dtypes={'a': 'int8'})\n"
        "import pyarrow as pa\n"
        f"for dtype in ({', '.join(KNOWN_WITHOUT_PANDAS)}):\n    rt.data_type(dtype)\n"
        "for dtype in (pl.Object, pa.month_day_nano_interval(), list, None, 5, 'category'):\n"
        "    try: rt.data_type(dtype)\n"
        "    except rt.errors.UnsupportedTypeError: pass\n"
        "    else: assert False, dtype\n"
        "assert 'pandas' not in sys.modules\n"
        "import pandas; pandas.DataFrame({'a': [1]}).remote.to_table('w')\n"
    )
    run(code, RT_FRAMES_API_KEY=KEY)
    paths = [request.path.removeprefix("/v1/table") for request in server.posts]
    assert paths == ["s/t", "s/u", "/t/alter_columns", "s/v", "s/w"]


def test_who_imports_pandas_first_has_the_accessor_and_never_loads_polars(server):
    code = (
        "import sys, pandas as pd, rt_frames as rt\n"
        f"rt.connect({server.url!r})\n"
        "df = pd.DataFrame({'a': [1, 2], 's': ['x', None]}); df.remote.to_table('t')\n"
        "assert 'remote' in dir(df) and 'remote' in pd.DataFrame._accessors\n"
        "for dtype in (pd.StringDtype(), pd.CategoricalDtype(['a']), int):\n"
        "    rt.data_type(dtype)\n"
        "for dtype in ('Int64', 'datetime64[ns, UTC]'):\n"
        "    rt.data_type(dtype)\n"
        "assert 'polars' not in sys.modules\n"
        "import polars; print(polars.DataFrame({'a': [1]}).remote.schema)\n"
    )
    assert run(code, "-Werror", RT_FRAMES_API_KEY=KEY).stdout == "a: int64\n"


def test_reloading_and_importing_anew_beside_another_hook_registers_once_and_warns_never():
    code = (
        "import importlib, importlib.util, sys; before = {*sys.meta_path}\n"
        "class Other:  # it asks all others, as this package's hook does\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        others = (f for f in sys.meta_path if f is not self)\n"
        "        found = (f.find_spec(name, path, target) for f in others)\n"
        "        return next(filter(None, found), None)\n"
        "import rt_frames; (hook,) = {*sys.meta_path} - before; importlib.reload(rt_frames)\n"
        "sys.meta_path.insert(0, Other())\n"
        "for name in [n for n in sys.modules if n.startswith('rt_frames')]: del sys.modules[name]\n"
        "import rt_frames\n"
        "loader = importlib.util.find_spec('polars').loader\n"
        "assert loader.get_filename('polars').endswith('__init__.py')\n"
        "import pandas, polars\n"
        "for module in (pandas, polars, rt_frames): importlib.reload(module)\n"
        "class Ours(pandas.DataFrame): pass\n"
        "print([type(of).__name__ for of in sys.meta_path].count(type(hook).__name__),\n"
        "      type(pandas.__spec__.loader).__name__, type(pandas.__loader__).__name__,\n"
        "      *(f({'a': [1]}).remote.schema for f in (Ours, polars.DataFrame)))"
    )
    found = run(code, "-Werror").stdout
    assert found == "1 SourceFileLoader SourceFileLoader a: int64 a: int64\n"


POLARS_WITH_A_REMOTE = """
class DataFrame:
    @property
    def remote(self):
        return "of Polars"
"""
PANDAS_THAT_REFUSES = """
class Sealed(type):
    def __setattr__(self, name, value):
        raise TypeError(f"cannot set {name!r}")

class DataFrame(metaclass=Sealed):
    pass
"""


@pytest.mark.parametrize(
    "order", ["rt_frames, polars, pandas", "polars, pandas, rt_frames"]
)
def test_a_remote_that_is_there_already_is_left_with_one_warning(tmp_path, order):
    (tmp_path / "polars.py").write_text(POLARS_WITH_A_REMOTE)
    (tmp_path / "pandas.py").write_text(PANDAS_THAT_REFUSES)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        f"import {order}\n"
        "print(polars.DataFrame().remote)"
    )
    done = run(code)
    assert done.stdout == "of Polars\n"
    told = re.findall(
        r"<string>:2: UserWarning: .*(pandas|polars)\.DataFrame.*rt_frames\.to_table",
        done.stderr,
    )
    assert sorted(told) == ["pandas", "polars"]
    # the imports of others succeed, even where warnings are errors
    if order.startswith("rt_frames"):
        assert run(code, "-Werror").stderr == ""


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_a_frame_is_freed_at_once_after_it_was_sent(client, library, name):
    frame = library.DataFrame(
        {"a": [1, 2, 3], "s": ["x", None, "z"], "c": [1.5, None, 2.5]}
    )
    gone = weakref.ref(frame)
    gc.collect()
    gc.disable()
    try:
        frame.remote.to_table(name)
        found = frame.remote.plan_alterations(frame.head(1)).to_json()
        assert found == {"alterations": []}
        with pytest.raises(rt.errors.TableExistsError):
            frame.remote.to_table(name)
        del frame
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_completion_shows_the_public_methods_alone(library):
    frame = library.DataFrame({"a": [1]})
    shown = {name for name in dir(frame.remote) if not name.startswith("_")}
    assert shown == {"to_table", "tee", "alter_table", "plan_alterations", "schema"}
    # notebooks look there, so that they need not run anything
    assert set(dir(type(frame).remote)) >= shown


METHODS = [  # of a frame, the function behind it, and its own parameters
    ("to_table", "to_table", ["name"]),
    ("tee", "to_table", ["name"]),
    ("plan_alterations", "plan_alterations", ["before"]),
    ("alter_table", "alter_table", ["name", "before"]),
]


@pytest.mark.parametrize(
    ("method", "function", "own"), METHODS, ids=[method for method, *_ in METHODS]
)
def test_a_method_shows_and_takes_the_options_of_the_function_behind_it(
    method, function, own
):
    bound = getattr(pl.DataFrame({"a": [1]}).remote, method)
    shown, given = (
        inspect.signature(one).parameters for one in (bound, getattr(rt, function))
    )
    options = {
        name: option
        for name, option in given.items()
        if option.kind is inspect.Parameter.KEYWORD_ONLY
    }
    found = {name: option for name, option in shown.items() if name not in own}
    assert found == options
    assert [*shown][: len(own)] == own
    assert {shown[name].kind for name in own} == {
        inspect.Parameter.POSITIONAL_OR_KEYWORD
    }
    with pytest.raises(TypeError, match="'if_exist'"):
        bound("t", if_exist="skip")


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_a_column_of_the_accessors_name_is_told_how_to_reach(library):
    survey = library.DataFrame({"remote": [1, 2]})
    words = r"no 'mean'; for a column named \"remote\" write df\[\"remote\"\]"
    with pytest.raises(AttributeError, match=words):
        survey.remote.mean()
    assert survey["remote"].mean() == 1.5
    assert not hasattr(survey.remote, "_repr_html_")
    assert repr(copy.copy(survey.remote)) == repr(survey.remote)
