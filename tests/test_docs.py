"""The examples of the README and the docstrings run as written."""

from __future__ import annotations

import doctest
import importlib
import inspect
import itertools
import json
import os
import re
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance
import numpydoc.validate
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

import rt_frames as rt
from rt_frames.local import LocalService
from tests.support.hosted import Hosted
from tests.support.servers import KEY, Connection, Request, Server

ROOT = Path(rt.__file__).parent
README = (Path(__file__).parent.parent / "README.md").read_text()
MODULES = sorted(
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(
        ".__init__"
    )
    for path in ROOT.rglob("*.py")
    if path.stem != "__main__"
)


@dataclass
class Documented:
    """A service with the three documented requests, and no others.

    ``fault`` returns what befalls a POST, by its number: "cut" keeps a part of the body
    and closes, "close" reads it and closes, "lose the answer" and "fail when done" do
    what is asked before.
    """

    fault: Callable[[int], str] = lambda _number: ""
    tables: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._numbers = itertools.count()

    def __call__(self, connection: Connection) -> None:
        while True:
            request = connection.head()
            if request.method == "GET":
                connection.answer(*self._do(request))
                continue
            fault = self.fault(next(self._numbers))
            connection.body(request, 100 if fault == "cut" else None)
            status, body = self._do(request) if fault != "close" else (0, b"")
            if fault in ("cut", "close", "lose the answer"):
                connection.reset()
                return
            connection.answer(500 if fault else status, body)

    def _do(self, request: Request) -> tuple[int, dict | bytes]:
        if request.route == "GET /v1/tables":
            return 200, {"tables": [*self.tables]}
        if re.fullmatch("POST /v1/table/[^/]+/alter_columns", request.route):
            return 200, b""
        found = re.fullmatch("POST /v1/tables/([^/]+)", request.route)
        if not found:
            return 404, b""
        if found[1] in self.tables:
            return 409, b""
        self.tables[found[1]] = request.body
        return 200, b""


def blocks(kind: str) -> str:
    return "\n".join(re.findall(rf"```{kind}\n(.*?)```", README, re.DOTALL))


def statements(kind: str) -> list[doctest.Example]:
    text = blocks(kind).replace("\n\n", "\n<BLANKLINE>\n")
    return doctest.DocTestParser().get_examples(text)


def first_example(url: str) -> Iterator[str]:
    """Run the first example with this URL; yield what each statement prints."""
    names: dict[str, object] = {}
    for example in statements("pycon"):
        source = example.source.replace("./tables", url)
        if example.want:
            yield repr(eval(source, names))  # the README is ours
        else:
            exec(source, names)


def printed() -> list[str]:
    return [one.want.rstrip() for one in statements("pycon") if one.want]


def _alike(said: str) -> str:
    """Remove what depends on the versions of libraries."""
    return re.sub(r"[\d.]+ k?B sent", "", said)


# Dask's own use of pandas
@pytest.mark.filterwarnings("ignore:The inplace keyword:DeprecationWarning")
def test_the_readme_prints_what_stands_there_and_runs_from_top_to_bottom_and_again(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        found = list(first_example("./tables"))
        assert [*map(_alike, found)] == [*map(_alike, printed())]
        names: dict[str, object] = {"pd": pd, "rt": rt}
        # the README is ours
        exec(compile(blocks("python"), "README.md", "exec"), names)
        assert names["deleted"] == 2
        assert_frame_equal(pl.DataFrame(lance_table("sales")), AFTER)
        rt.table("sales").drop()
    shell = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", blocks("sh run")],
        capture_output=True,
        text=True,
        check=True,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        },
    )
    shown = ["flights", "from_dask", "orders"]
    assert shell.stdout.split()[: len(shown)] == shown
    assert shell.stdout.endswith("dropped from_dask, at tables\n")
    assert rt.list_tables() == [name for name in shown if name != "from_dask"]
    assert lance_table("orders").num_rows == 4
    assert lance_table("flights").num_rows == 11_999
    assert pl.read_parquet("flights.parquet").height == 11_999


def lance_table(name: str) -> pa.Table:
    return lance.dataset(f"tables/{name}.lance").to_table()


FIRST = pl.DataFrame({"region": ["north", "south"], "sold": [3, 4]})
AFTER = FIRST.rename({"sold": "units"}).cast({"units": pl.Int32})
ALTERATIONS = {
    "alterations": [{"path": "sold", "rename": "units", "data_type": {"type": "int32"}}]
}


def assert_sent(requests: list[Request]) -> None:
    """Check the bodies of the first example's two requests, and their key."""
    created, altered = requests
    assert pl.DataFrame(pa.ipc.open_stream(created.body)).equals(FIRST)
    assert json.loads(altered.body) == ALTERATIONS
    assert {request.headers["x-api-key"] for request in requests} == {KEY}


def test_the_readmes_first_example_prints_what_stands_there_on_a_hosted_service(
    server, monkeypatch
):
    server.script = Documented()
    monkeypatch.setenv("RT_FRAMES_API_KEY", KEY)
    connected, *found = first_example(server.url)
    assert connected.startswith(f"Client('{server.url}'")
    wanted = [re.sub(r" version \d+,", "", one) for one in printed()[1:]]
    wanted = [one.replace("at tables", f"at {server.url}") for one in wanted]
    assert [*map(_alike, found)] == [*map(_alike, wanted)]
    assert [request.route for request in server.requests] == [
        "POST /v1/tables/sales",
        "POST /v1/table/sales/alter_columns",
    ]
    assert_sent(server.requests)


def test_the_readmes_first_example_runs_on_a_server_of_lancedbs(monkeypatch):
    hosted = Hosted()
    with Server(hosted) as server:
        monkeypatch.setenv("RT_FRAMES_API_KEY", KEY)
        monkeypatch.setenv("RT_FRAMES_DIALECT", "lancedb")
        assert len(list(first_example(server.url))) == 3
        changes = [
            request for request in server.posts if "describe" not in request.path
        ]
    assert [request.route for request in changes] == [
        "POST /v1/table/sales/create/?mode=create",
        "POST /v1/table/sales/alter_columns/",
    ]
    assert_sent(changes)
    assert_frame_equal(pl.DataFrame(hosted.tables["sales"].rows), AFTER)


def test_the_readmes_cast_is_the_line_that_a_refusal_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"pd": pd, "rt": rt}
    before, _, _ = blocks("python").partition('rt.table("orders").cast(')
    with rt.connect("./tables"):
        exec(before, names)  # the README is ours
        new = names["today"].assign(units=[5.5, 6])
        with pytest.raises(rt.errors.UnsupportedTypeError) as refused:
            new.remote.to_table("orders", **names["by_day"])
    assert f"\n{str(refused.value).rpartition('once: ')[2]}\n" in blocks("python")


FAULTS = ["", "cut", "close", "lose the answer", "fail when done"]


PAIRS_OF_FAULTS = list(itertools.product(FAULTS, FAULTS))


@pytest.mark.parametrize("faults", PAIRS_OF_FAULTS, ids="-".join)
def test_the_readmes_job_for_a_hosted_service_names_a_table_that_is_whole(
    faults, server, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    left = [*faults]
    server.script = service = Documented(lambda _: left.pop(0) if left else "")
    names: dict[str, Any] = {"rt": rt}
    # the README is ours
    exec(blocks("python hosted"), names)
    with rt.connect(server.url, api_key=KEY):
        name = names["store"](FIRST, "sales")
        sent = len(server.posts)
        assert names["store"](FIRST, "sales") == name
        assert len(server.posts) == sent
        assert pl.DataFrame(pa.ipc.open_stream(service.tables[name])).equals(FIRST)
        left.clear()
        alter, _, _ = README.partition('("sales", Path("sales.schema"))')
        assert alter.endswith("later.remote.alter_table")
        AFTER.remote.alter_table(name, Path(f"{name}.schema"), rename={"sold": "units"})
    assert json.loads(server.posts[-1].body) == ALTERATIONS


def test_the_readmes_job_stops_if_the_outcome_stays_unknown(
    server, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    server.script = Documented(lambda _: "lose the answer")
    names: dict[str, Any] = {"rt": rt}
    exec(blocks("python hosted"), names)
    with rt.connect(server.url, api_key=KEY):
        for _ in range(2):
            with pytest.raises(RuntimeError, match="dashboard"):
                names["store"](FIRST, "sales")
    assert [request.route for request in server.posts] == [
        "POST /v1/tables/sales",
        "POST /v1/tables/sales_2",
        "POST /v1/tables/sales_3",
    ]
    assert [*tmp_path.iterdir()] == []


@pytest.mark.long
def test_the_readmes_table_of_libraries_is_what_those_that_are_here_do():
    from tests.benchmarks import peers

    assert peers.HEAD in README, "run: python -m tests.benchmarks.peers"
    assert [line for line in peers.lines() if line not in README] == []


def test_the_readmes_fixture_gives_each_test_a_service_of_its_own(tmp_path):
    code = blocks("python test")
    environment = """
        import os
        import polars as pl
        import pytest
        import rt_frames as rt

        @pytest.mark.parametrize("number", range(2))
        def test_the_environment_is_read_anew(tmp_path, monkeypatch, number):
            monkeypatch.setenv("RT_FRAMES_URL", str(tmp_path))
            pl.DataFrame({"a": [1]}).remote.to_table("t")
            assert rt.list_tables() == ["t"]
            assert os.listdir(tmp_path / "t.lance")

        def test_a_service_that_ended_is_no_default_any_more():
            with pytest.raises(rt.errors.NotConnectedError):
                rt.list_tables()
    """
    for number in range(2):
        (tmp_path / f"test_{number}.py").write_text(code)
    (tmp_path / "test_environment.py").write_text(textwrap.dedent(environment))
    options = ["-q", "-W", "error", "-p", "no:cacheprovider", str(tmp_path)]
    command = [sys.executable, "-m", "pytest", *options]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert "5 passed" in done.stdout, done.stdout + done.stderr


def test_the_readmes_way_to_look_at_what_was_stored_works_as_written(tmp_path, capsys):
    client = rt.connect(tmp_path / "tables", default=False)
    rt.to_table(
        pl.DataFrame({"region": ["west", "north"], "units": [5, 3]}),
        "sales",
        client=client,
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
    script = (
        blocks("sh served").replace("8765", port).replace("rt-frames", "exec rt-frames")
    )
    served = subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        },
    )
    with served:
        assert port in served.stdout.readline()
        try:
            # the README is ours
            exec(blocks("python served").replace("8765", port), {})
        finally:
            served.terminate()
    found = capsys.readouterr().out.split()
    assert found == ["region", "units", "0", "west", "5"]


def test_the_readme_names_every_public_name():
    assert [
        name
        for name in rt.__all__
        if name != "__version__" and f"rt.{name}" not in README
    ] == []


def examples() -> list[doctest.DocTest]:
    found = [
        doctest.DocTestFinder().find(importlib.import_module(name)) for name in MODULES
    ]
    return [test for some in found for test in some if test.examples]


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_the_examples_in_the_docstrings_run(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RT_FRAMES_URL", "./tables")
    pl.DataFrame({"at": [1, 2]}).remote.to_table("readings")
    runner = doctest.DocTestRunner(
        optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    )
    assert runner.run(example).failed == 0


def public_names() -> list[str]:
    classes = {
        f"rt_frames.{n}": getattr(rt, n)
        for n in rt.__all__
        if isinstance(getattr(rt, n), type)
    }
    classes |= {
        f"rt_frames.errors.{n}": getattr(rt.errors, n) for n in rt.errors.__all__
    }
    classes |= {
        "rt_frames._accessor.RemoteAccessor": type(pl.DataFrame().remote),
        "rt_frames.local.LocalService": LocalService,
    }
    methods = [
        f"{name}.{m}"
        for name, c in classes.items()
        for m in dir(c)
        if _is_documented(c, m)
    ]
    functions = [
        f"rt_frames.{n}" for n in rt.__all__ if inspect.isfunction(getattr(rt, n))
    ]
    return [*functions, *classes, *methods]


def _is_documented(kind: type, name: str) -> bool:
    member = inspect.getattr_static(kind, name)
    ours = getattr(member, "fget", member)
    return not name.startswith("_") and getattr(ours, "__module__", "").startswith(
        "rt_frames"
    )


@pytest.mark.parametrize("name", public_names())
def test_every_public_docstring_is_numpydoc_with_an_example(name):
    wanted = {
        "GL08",
        "SS03",
        "PR01",
        "PR02",
        "PR03",
        "PR04",
        "PR07",
        "PR10",
        "RT01",
        "RT03",
        "EX01",
    }
    if name.startswith("rt_frames.errors.") and name != "rt_frames.errors.RemoteError":
        # parameters and examples are those of the parent
        wanted -= {"PR01", "PR04", "PR07", "RT01", "EX01"}
    found = numpydoc.validate.validate(name)["errors"]
    assert [text for code, text in found if code in wanted] == []


ACCESSOR = type(pl.DataFrame().remote)
# each function, and the methods that do the same
DOORS = {
    rt.to_table: [rt.tee, rt.Client.create_table, ACCESSOR.to_table, ACCESSOR.tee],
    rt.alter_table: [ACCESSOR.alter_table],
    rt.plan_alterations: [ACCESSOR.plan_alterations],
    rt.alter_columns: [rt.Client.alter_columns, rt.RemoteTable.alter_columns],
    rt.table: [rt.Client.table],
    rt.list_tables: [rt.Client.list_tables],
}
PAIRS = [(function, door) for function in DOORS for door in DOORS[function]]


@pytest.mark.parametrize(
    ("function", "door"), PAIRS, ids=lambda function: function.__qualname__
)
def test_a_method_describes_its_parameters_as_the_function_does(function, door):
    described = numpydoc.docscrape.FunctionDoc(function)["Parameters"]
    known = {}
    for entry in described:
        known |= dict.fromkeys(entry.name.split(", "), (entry.type, entry.desc))
    found = numpydoc.docscrape.FunctionDoc(door)["Parameters"]
    names = [*inspect.signature(door).parameters]
    assert [entry.name for entry in found] == [name for name in names if name != "self"]
    assert [known[entry.name] for entry in found] == [
        (entry.type, entry.desc) for entry in found
    ]
    assert "as in `rt_frames" not in door.__doc__


@pytest.mark.parametrize(
    "door", [rt.to_table, *DOORS[rt.to_table]], ids=lambda door: door.__qualname__
)
def test_a_signature_shows_the_words_that_can_be_passed(door):
    shown = str(inspect.signature(door))
    words = "Literal['fail', 'skip', 'replace', 'append', 'upsert'] = 'fail'"
    assert f"if_exists: {words}" in shown
    assert "Literal['auto', 'lz4', 'zstd']" in shown


def test_the_readmes_table_of_types_is_what_the_code_says():
    from tests.support.type_table import table

    assert table() in README, "run: python -m tests.support.type_table"
