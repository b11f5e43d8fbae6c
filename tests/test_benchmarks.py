"""The programs in ``tests/benchmarks`` run, on little."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks import folder, links, shapes, upload

RUNS = {
    "folder": lambda: folder.main([], nbytes=10**5, rows=10**4, repeats=1),
    "links": lambda: links.show(links.Point(60, 1, "tunnel"), repeats=1),
    "shapes": lambda: shapes.main([], part=100, repeats=1),
    "upload": lambda: upload.main([], nbytes=10**6, repeats=1),
}
# a part of links, and what the table of README is compared with
OTHERS = {"link", "peers"}


@pytest.mark.long
@pytest.mark.parametrize("program", RUNS)
def test_a_benchmark_prints_its_lines(program, capsys):
    RUNS[program]()
    assert capsys.readouterr().out


def test_there_are_no_other_benchmarks():
    programs = Path(folder.__file__).parent.glob("[a-z]*.py")
    assert {path.stem for path in programs} == {*RUNS, *OTHERS}
