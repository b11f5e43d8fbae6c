"""Which package may import which, and the public names."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rt_frames as rt
from tests import density

ROOT = Path(rt.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
HELPERS = {
    "errors",
    "_arguments",
    "_text",
    "_names",
    "_version",
    "_threads",
    "_display",
    "_progress",
    "_extras",
}
ROOMS = {"_schema", "_protocol", "_http", "_values", "_stream", "_frames"}
# a room, or a file of one → what it may import of the others; the rest are helpers
LAW = {
    "_schema": HELPERS,
    "_values": {"_schema", *HELPERS},
    "_stream": {"_values", "_schema", *HELPERS},
    "_frames": {"_stream", "_values", "_schema", *HELPERS},
    "_protocol": {"_schema", *HELPERS},
    "_http": {"_protocol", *HELPERS},
    "_service": {*ROOMS, *HELPERS},
    "_service.folder": {"local", "_http", "_protocol", *HELPERS},
    "_client": {"_service", *ROOMS, *HELPERS},
    "_connect": {"_client", "_service", *ROOMS, *HELPERS},
    "_api": {"_connect", "_client", "_service", *ROOMS, *HELPERS},
    "_accessor": {
        "_api",
        "_client",
        "_service",
        *ROOMS - {"_http", "_protocol"},
        *HELPERS,
    },
    "_register": {"_accessor"},
    "cli": {"_connect", "_client", "local", *HELPERS},
    "local": {"_schema", "_protocol", *HELPERS},
}
HEAVY = {
    "pandas",
    "polars",
    "pyarrow",
    "numpy",
    "requests",
    "urllib3",
    "lance",
    "cheroot",
    "tqdm",
    "click",
}
THIRD_PARTY = {*HEAVY, "dask", "distributed"}


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(
        ".__init__"
    )


MODULES = {module_name(path): path for path in FILES}


def imports_of(path: Path) -> set[str]:
    """Return the package's modules that a file imports, late or for types too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if (
            isinstance(node, ast.ImportFrom)
            and (node.module or "").partition(".")[0] == "rt_frames"
        ):
            module = (node.module or "").removeprefix("rt_frames").removeprefix(".")
            inside = {
                f"{module}.{alias.name}".removeprefix(".") for alias in node.names
            } & set(MODULES)
            found |= inside or {module}
    return found - {""}


def room(module: str) -> str:
    return module.partition(".")[0]


@pytest.mark.parametrize("name", [name for name in MODULES if name != "__init__"])
def test_a_file_imports_only_what_the_law_lets_it(name):
    allowed = LAW.get(name) or LAW.get(room(name), HELPERS)
    others = {
        module for module in imports_of(MODULES[name]) if room(module) != room(name)
    }
    assert {
        module
        for module in others
        if module not in allowed and room(module) not in allowed
    } == set()


def test_the_package_s_page_names_files_that_exist():
    page = (ROOT / "README.md").read_text()
    for name in re.findall(r"`((?:\w+/)*\w+\.py)`", page):
        assert [*ROOT.rglob(name)] or name.startswith("tests/"), name


def test_few_files_stand_at_the_top():
    assert len([*ROOT.glob("*.py")]) <= 15


def test_no_file_imports_itself_in_a_circle():
    graph = {
        name: imports_of(path) & set(MODULES)
        for name, path in MODULES.items()
        if name != "__init__"
    }
    while leaves := {name for name, below in graph.items() if not below & set(graph)}:
        graph = {name: below for name, below in graph.items() if name not in leaves}
    assert sorted(graph) == []


def test_no_function_is_longer_than_a_screen():
    """Without its docstring, at most 60 lines."""
    functions = [
        (
            path.name,
            node.name,
            node.end_lineno - node.lineno + 1 - _docstring_lines(node),
        )
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    ]
    assert [found for found in functions if found[2] > 60] == []


def _docstring_lines(node: ast.FunctionDef) -> int:
    if ast.get_docstring(node) is None:
        return 0
    return node.body[0].end_lineno - node.body[0].lineno + 1


def test_third_party_libraries_are_imported_late_in_few_places():
    """They are in functions that recognise a library, and in commands of the CLI."""
    late = {
        (f"{module_name(path)}: {ast.unparse(node)}", node.lineno)
        for path in FILES
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef | ast.Lambda)
        for node in ast.walk(function)
        if _third_party(node)
    }
    assert len(late) <= 10, sorted(late)


def _third_party(node: ast.AST) -> bool:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    return any(name.partition(".")[0] in THIRD_PARTY for name in names)


def test_the_front_door_shows_what_it_says():
    assert set(dir(rt)) == set(rt.__all__)
    for name in rt.__all__:
        assert getattr(rt, name) is not None
    assert dir(rt.errors) == sorted(rt.errors.__all__)
    assert set(rt.errors.__all__) == {
        name
        for name, value in vars(rt.errors).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }


@pytest.mark.parametrize(
    ("imports", "kept_out"),
    [
        ("rt_frames", HEAVY),
        ("polars, rt_frames", {"pandas", "pyarrow", "requests", "urllib3", "lance"}),
        ("pandas, rt_frames", {"polars", "requests", "urllib3", "lance"}),
    ],
)
def test_importing_the_package_imports_no_other_library(imports, kept_out):
    code = f"import sys, {imports}; print(sorted({kept_out!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_every_module_can_be_imported():
    for name in MODULES:
        if name not in ("__init__", "cli.__main__"):
            importlib.import_module(f"rt_frames.{name}".removesuffix("."))


SOURCE = '''
"""What it is."""
TABLE = {"a": 1, "b": 2}  # a table of values
def f(a):
    """Say what."""
    b, c = a, f"{a + 1} of {a}"
    b, c = c, b
    return [one for one in b if one] if c else c
'''


def test_density_counts_code_alone():
    found = density.measure(SOURCE)
    assert (found.statements, found.tuples, found.comprehensions) == (4, 1, 2)
    (function,) = found.functions
    assert function[:2] == (found.tokens, 4)
    assert found.tokens == 34  # an f-string is one
