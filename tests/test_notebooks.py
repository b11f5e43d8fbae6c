"""The notebooks run from top to bottom; their outputs can be published."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

import nbformat
import pandas as pd
import pytest

from tests.notebooks import METADATA, NOTEBOOKS, executed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# a path of a machine, and what is loaded from outside
UNWANTED = re.compile(
    r"(?<![\w/.:])/(?:tmp|home|work|root|Users|private)/"
    r"|<(?:script|img|link|iframe|source|video|audio)\b[^>]*"
    r"\b(?:src|href)\s*=\s*[\"']?(?:https?:)?//"
    r"|@import|url\(\s*[\"']?(?:https?:)?//",
    re.IGNORECASE,
)

each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def texts(notebook: Any) -> Iterator[str]:
    """Yield the text of all stored outputs."""
    for cell in code(notebook):
        for output in cell.outputs:
            yield output.get("text", "")
            yield from output.get("data", {}).values()


def shows(cell: Any) -> bool:
    """Return whether a cell must have an output: it prints or ends in a value."""
    last = ast.parse(cell.source).body[-1]
    valued = isinstance(last, ast.Expr) and not (
        isinstance(last.value, ast.Call) and "." in ast.unparse(last.value.func)
    )
    return (
        valued
        or re.search(r"^(?:print\(|figure\b)", cell.source, re.MULTILINE) is not None
    )


def test_there_are_four_and_nothing_else():
    files = NOTEBOOKS[0].parent.glob("[!.]*")
    assert sorted(files) == NOTEBOOKS
    assert len(NOTEBOOKS) == 4


@pytest.mark.long
@each
def test_a_notebook_runs_from_top_to_bottom_and_again_in_the_same_kernel(
    path: Path, tmp_path: Path
):
    # an error in a cell is an exception here
    notebook = executed(path, tmp_path, times=2)
    counts = [cell.execution_count for cell in code(notebook)]
    assert counts == [*range(len(counts) + 1, 2 * len(counts) + 1)]
    assert not list((tmp_path / "work").iterdir()), "it left files where it was started"
    kept = nbformat.read(path, as_version=4)
    found = [bool(cell.outputs) for cell in code(notebook)]
    assert found == [bool(cell.outputs) for cell in code(kept)]
    warned = [
        o.text
        for cell in code(notebook)
        for o in cell.outputs
        if o.get("name") == "stderr"
    ]
    # pandas 2 keeps text as objects, and warns that None and NaN will differ one day
    assert [
        text
        for text in warned
        if pd.__version__ >= "3" or "Mismatched null-like values" not in text
    ] == []


@each
def test_what_is_stored_was_run_in_order_without_an_error(path: Path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    found = [cell.execution_count for cell in code(notebook)]
    assert found == list(range(1, len(code(notebook)) + 1))
    found = [cell.id for cell in code(notebook) if shows(cell) and not cell.outputs]
    assert found == []
    assert [
        o for cell in code(notebook) for o in cell.outputs if o.output_type == "error"
    ] == []
    assert "Traceback" not in "".join(texts(notebook))


@each
def test_what_is_stored_tells_nothing_of_a_machine_and_loads_nothing_from_outside(
    path: Path,
):
    shown = "\n".join(texts(nbformat.read(path, as_version=4)))
    assert shown
    assert [found.group() for found in UNWANTED.finditer(shown)] == []


@each
def test_nothing_is_stored_that_changes_from_run_to_run_by_itself(path: Path):
    notebook = nbformat.read(path, as_version=4)
    assert notebook.metadata == METADATA
    assert [cell.id for cell in notebook.cells if cell.metadata] == []


BAD = [
    "in /tmp/x.lance",
    "'/home/a'",
    '<script async src="https://cdn.example/x.js">',
    "<img src=//cdn.example/x.png>",
    "background: url('https://x.example')",
]
GOOD = [
    "http://127.0.0.1/tmp/x",
    "MB/s and/or work/x",
    '<a href="https://lance.org">',
    '<img src="data:image/png;base64,AA">',
    "background: url(data:image/png;base64,AA)",
]


def test_what_looks_for_bad_outputs_finds_them():
    assert [text for text in BAD + GOOD if UNWANTED.search(text)] == BAD
