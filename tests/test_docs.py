"""What the README and the docstrings promise is run as it stands."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import polars as pl
import pytest

import rt_frames as rt
from tests.servers import KEY

ROOT = Path(rt.__file__).parent
README = (Path(__file__).parent.parent / "README.md").read_text()
MODULES = sorted(path.stem for path in ROOT.glob("*.py") if path.stem != "__init__")


def blocks(kind: str) -> str:
    return "\n".join(re.findall(rf"```{kind}\n(.*?)```", README, re.DOTALL))


def test_the_readmes_python_runs_from_top_to_bottom_on_the_embedded_service(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(blocks("python"), "README.md", "exec"), names)  # the README is ours
    assert rt.list_tables() == ["numbers", "prices", "sales"]
    assert names["total"].item() == pytest.approx(4.2)


def test_the_readmes_first_cell_on_the_hosted_service_is_one_address_away(server, monkeypatch):
    monkeypatch.setenv("RT_FRAMES_API_KEY", KEY)
    cell = blocks("python hosted")
    assert "https://words-x1.us-east-1.example.com" in cell
    exec(cell.replace("https://words-x1.us-east-1.example.com", server.url), {})  # the README is ours
    assert [r.line for r in server.requests] == ["POST /v1/tables/sales HTTP/1.1"]


def test_the_readme_names_every_public_name():
    assert [name for name in rt.__all__ if name != "__version__" and f"rt.{name}" not in README] == []


@pytest.mark.parametrize("name", ["rt_frames", *(f"rt_frames.{m}" for m in MODULES), "rt_frames.local._service"])
def test_the_examples_in_the_docstrings_run(name, tmp_path):
    rt.connect(tmp_path)
    pl.DataFrame({"at": [1, 2]}).remote.to_table("readings")
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=flags)
    assert failed == 0


@pytest.mark.parametrize("name", [n for n in rt.__all__ if callable(getattr(rt, n))])
def test_every_public_docstring_has_an_example_and_says_what_it_raises(name):
    public = getattr(rt, name)
    words = public.__doc__
    if isinstance(public, type):
        words += "".join(m.__doc__ or "" for m in vars(public).values() if callable(m) and not isinstance(m, type))
    assert "Parameters\n" in words or "Attributes\n" in words
    assert ">>>" in words


def test_the_readmes_table_of_types_is_what_the_code_says():
    from tests.type_table import table

    assert table() in README, "run: python -m tests.type_table"
