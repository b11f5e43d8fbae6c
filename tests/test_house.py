"""The law of the house: a file imports only files above it, and the front door shows what it says."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import rt_frames as rt

PACKAGE = Path(rt.__file__).parent
ORDER = [
    "_version",
    "errors",
    "_data_types",
    "_portable",
    "_polars_dtypes",
    "_dtypes",
    "_layouts",
    "_batches",
    "_pandas",
    "_polars",
    "_dask",
    "_frames",
    "_identity",
    "_casts",
    "_differences",
    "_display",
    "_alterations",
    "_ahead",
    "_codecs",
    "_ipc",
    "_arguments",
    "_answers",
    "_connection",
    "_adapter",
    "_call",
    "_session",
    "_progress",
    "_table",
    "_endpoint",
    "_client",
    "_target",
    "_folder",
    "_connect",
    "_accessor",
    "_register",
    "_files",
    "_demo",
    "cli",
    "__init__",
]
LOCAL_ORDER = [
    "_problem",
    "_ahead",
    "_body",
    "_messages",
    "_stream",
    "_changes",
    "_engine",
    "_store",
    "_routes",
    "_service",
    "__init__",
]


def imports_of(path: Path, package: str) -> set[str]:
    """Name the files that a file imports, late imports too; what is imported for annotations alone is not."""
    tree = ast.parse(path.read_text())
    typing_only = [n for n in ast.walk(tree) if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    ignored = {id(node) for block in typing_only for node in ast.walk(block)}
    found = set()
    for node in ast.walk(tree):
        if id(node) in ignored:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            inside = node.module.split(".")
            if node.module == package:
                found |= {alias.name for alias in node.names}
            elif node.module.startswith(package + "."):
                found.add(inside[package.count(".") + 1])
    return found


def test_every_file_has_its_place_in_the_order():
    assert sorted(ORDER) == sorted(path.stem for path in PACKAGE.glob("*.py"))
    assert sorted(LOCAL_ORDER) == sorted(path.stem for path in (PACKAGE / "local").glob("*.py"))


@pytest.mark.parametrize("name", ORDER)
def test_a_file_imports_only_files_above_it(name):
    above = set(ORDER[: ORDER.index(name)])
    allowed = above | ({"local"} if name in ("_folder", "cli") else set())
    names = imports_of(PACKAGE / f"{name}.py", "rt_frames")
    assert {n for n in names if n in {*ORDER, "local"}} - allowed == set()


@pytest.mark.parametrize("name", LOCAL_ORDER)
def test_the_embedded_service_stands_on_errors_and_data_types_alone(name):
    path = PACKAGE / "local" / f"{name}.py"
    outside = imports_of(path, "rt_frames") - {"local"}
    inside = imports_of(path, "rt_frames.local") - {"LocalService"}
    assert outside <= {"errors", "_data_types"}
    assert inside <= set(LOCAL_ORDER[: LOCAL_ORDER.index(name)])


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: p.name)
def test_no_file_is_longer_than_300_lines(path):
    assert len(path.read_text().splitlines()) <= 300


def test_the_front_door_shows_what_it_says():
    assert set(dir(rt)) == set(rt.__all__)
    assert sorted({name for names in rt._ROOMS.values() for name in names} | {"__version__", "errors"}) == rt.__all__
    for room, names in rt._ROOMS.items():
        for name in names:
            assert getattr(rt, name) is getattr(importlib.import_module(f"rt_frames.{room}"), name)
    with pytest.raises(AttributeError, match="'rt_frames' has no attribute 'upload'"):
        rt.upload  # noqa: B018  # asked for in vain
    assert set(rt.errors.__all__) == {
        name for name, value in vars(rt.errors).items() if isinstance(value, type) and issubclass(value, Exception)
    }


def test_importing_the_package_imports_no_heavy_library():
    heavy = {"pandas", "polars", "pyarrow", "requests", "urllib3", "lance", "numpy", "cheroot", "tqdm", "click"}
    code = f"import sys, rt_frames; print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
