"""``df.remote`` exists whatever is imported first, and keeps nothing alive."""

from __future__ import annotations

import copy
import gc
import inspect
import os
import re
import weakref
from pathlib import Path

import pandas as pd
import polars as pl
import pytest

import rt_frames as rt
from tests.support.processes import python
from tests.support.servers import KEY


def run(code: str, *arguments: object, **environment: str) -> tuple[str, str]:
    """Run code in a process of its own. Return what it printed and warned of."""
    env = {"PYTHONPATH": os.environ.get("PYTHONPATH", ""), **environment}
    with python("-c", code, *arguments, env=env) as process:
        printed, warned = process.communicate()
    assert process.returncode == 0, warned
    return printed, warned


POLARS_FIRST = """
import sys
import polars as pl
import rt_frames as rt

c = pl.Series(["u", "v"], dtype=pl.Categorical)
df = pl.DataFrame({"a": [1, 2], "s": ["x", None], "c": c})
assert "remote" in dir(df)
assert "remote" in pl.DataFrame._accessors
assert not {"pyarrow", "requests"} & set(sys.modules)
rt.connect(sys.argv[1])
df.remote.to_table("t")
df.lazy().pipe(rt.to_table, "u")
rename = {"s": "text"}
after = df.rename(rename).cast({"a": pl.Int32})
print(after.remote.plan_alterations(df, rename=rename))
after.remote.alter_table("t", df, rename=rename)
rt.list_tables()
rt.to_table(df, "v", dtypes={"a": "int8"})

import pyarrow as pa

for dtype in (
    pl.Int64,
    pl.List(pl.Categorical),
    pl.Struct({"x": pl.Enum(["a"])}),
    pl.Datetime("us", "UTC"),
    pa.string_view(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.list_(pa.uuid()),
    int,
    type(None),
    {"type": "dict:string:int8:false"},
    "int64",
    "str",
    "timestamp[us, tz=UTC]",
    "decimal128(10, 2)",
    "fixed_size_binary[3]",
):
    rt.data_type(dtype)
for dtype in (pl.Object, pa.month_day_nano_interval(), list, None, 5, "category"):
    try:
        rt.data_type(dtype)
    except rt.errors.UnsupportedTypeError:
        continue
    raise AssertionError(dtype)
assert "pandas" not in sys.modules

import pandas

pandas.DataFrame({"a": [1]}).remote.to_table("w")
"""


def test_who_imports_polars_first_has_the_accessor_and_never_loads_pandas(server):
    run(POLARS_FIRST, server.url, RT_FRAMES_API_KEY=KEY)
    paths = [request.path.removeprefix("/v1/table") for request in server.posts]
    assert paths == ["s/t", "s/u", "/t/alter_columns", "s/v", "s/w"]


PANDAS_FIRST = """
import sys
import pandas as pd
import rt_frames as rt

rt.connect(sys.argv[1])
df = pd.DataFrame({"a": [1, 2], "s": ["x", None]})
df.remote.to_table("t")
assert "remote" in dir(df)
assert "remote" in pd.DataFrame._accessors
for dtype in (pd.StringDtype(), pd.CategoricalDtype(["a"]), int):
    rt.data_type(dtype)
for dtype in ("Int64", "datetime64[ns, UTC]"):
    rt.data_type(dtype)
assert "polars" not in sys.modules

import polars

print(polars.DataFrame({"a": [1]}).remote.schema)
"""


def test_who_imports_pandas_first_has_the_accessor_and_never_loads_polars(server):
    strict = {"RT_FRAMES_API_KEY": KEY, "PYTHONWARNINGS": "error"}
    assert run(PANDAS_FIRST, server.url, **strict) == ("a: int64\n", "")


BESIDE_ANOTHER_HOOK = """
import importlib
import importlib.util
import sys


class Other:  # it asks all others, as this package's hook does
    def find_spec(self, name, path, target=None):
        others = (f for f in sys.meta_path if f is not self)
        found = (f.find_spec(name, path, target) for f in others)
        return next(filter(None, found), None)


before = {*sys.meta_path}
import rt_frames

(hook,) = {*sys.meta_path} - before
importlib.reload(rt_frames)
sys.meta_path.insert(0, Other())
for name in [name for name in sys.modules if name.startswith("rt_frames")]:
    del sys.modules[name]
import rt_frames

loader = importlib.util.find_spec("polars").loader
assert loader.get_filename("polars").endswith("__init__.py")
import pandas, polars

for module in (pandas, polars, rt_frames):
    importlib.reload(module)


class Ours(pandas.DataFrame):
    pass


hooks = [type(one).__name__ for one in sys.meta_path]
assert hooks.count(type(hook).__name__) == 1
assert type(pandas.__spec__.loader).__name__ == "SourceFileLoader"
assert type(pandas.__loader__).__name__ == "SourceFileLoader"
print(Ours({"a": [1]}).remote.schema, polars.DataFrame({"a": [1]}).remote.schema)
"""


def test_reloading_and_importing_anew_beside_another_hook_registers_once():
    printed, warned = run(BESIDE_ANOTHER_HOOK, PYTHONWARNINGS="error")
    assert printed == "a: int64 a: int64\n"
    assert warned == ""


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


def before_others(folder: Path) -> str:
    return f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"


ORDERS = ["rt_frames, polars, pandas", "polars, pandas, rt_frames"]


@pytest.mark.parametrize("order", ORDERS)
def test_a_remote_that_is_there_already_is_left_with_one_warning(tmp_path, order):
    (tmp_path / "polars.py").write_text(POLARS_WITH_A_REMOTE)
    (tmp_path / "pandas.py").write_text(PANDAS_THAT_REFUSES)
    code = f"import sys\nimport {order}\nprint(polars.DataFrame().remote)"
    printed, warned = run(code, PYTHONPATH=before_others(tmp_path))
    words = (
        r"<string>:2: UserWarning: .*(pandas|polars)\.DataFrame.*rt_frames\.to_table"
    )
    assert printed == "of Polars\n"
    assert sorted(re.findall(words, warned)) == ["pandas", "polars"]


def test_imports_of_others_succeed_even_where_warnings_are_errors(tmp_path):
    (tmp_path / "polars.py").write_text(POLARS_WITH_A_REMOTE)
    code = "import rt_frames, polars\nprint(polars.DataFrame().remote)"
    strict = {"PYTHONPATH": before_others(tmp_path), "PYTHONWARNINGS": "error"}
    assert run(code, **strict) == ("of Polars\n", "")


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_a_frame_is_freed_at_once_after_it_was_sent(client, library, name):
    frame = library.DataFrame({"a": [1, 2], "s": ["x", None], "c": [1.5, None]})
    gone = weakref.ref(frame)
    gc.collect()
    gc.disable()
    try:
        frame.remote.to_table(name)
        assert not frame.remote.plan_alterations(frame.head(1))
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
    shown = [*inspect.signature(bound).parameters.values()]
    given = inspect.signature(getattr(rt, function)).parameters.values()
    first = shown[: len(own)]
    assert [one.name for one in first] == own
    assert {one.kind for one in first} == {inspect.Parameter.POSITIONAL_OR_KEYWORD}
    options = [one for one in given if one.kind is inspect.Parameter.KEYWORD_ONLY]
    assert shown[len(own) :] == options
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
