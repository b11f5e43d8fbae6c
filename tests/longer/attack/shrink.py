"""Make a failing case smaller, as long as it fails for the same cause."""

from __future__ import annotations

import dataclasses
import multiprocessing
from typing import TYPE_CHECKING, Any

import pandas as pd
import polars as pl
import pyarrow as pa

from tests.longer.attack.judge import WAYS, Case, Judge, Outcome, origin_of
from tests.longer.attack.make_duckdb import Query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TRIALS = 40
PATIENCE = 60  # seconds that a case in a process of its own may take


def shrunk(attempt: Callable[[Case], Outcome], case: Case, outcome: Outcome) -> tuple[Case, Outcome]:
    """Try smaller cases until none of them fails in the same way, or enough were tried."""
    trials = 0
    smaller = _smaller(case)
    while trials < TRIALS:
        candidate = next(smaller, None)
        if candidate is None:
            break
        trials += 1
        try:
            tried = attempt(candidate)
        except Exception:  # noqa: BLE001  # a part of a frame that cannot be made is no smaller case
            continue
        if (tried.verdict, tried.cause) == (outcome.verdict, outcome.cause):
            case, outcome = candidate, tried
            smaller = _smaller(case)
    return case, outcome


def attempt_apart(case: Case) -> Outcome:
    """Judge a case in a process of its own, which may die of it."""
    child = multiprocessing.get_context("fork").Process(target=_judge_once, args=(case,))
    child.start()
    child.join(PATIENCE)
    if child.exitcode is None:
        child.kill()
        child.join()
        return Outcome("HANG", "exit code -9")
    return Outcome("CRASH" if child.exitcode else "EQUAL", f"exit code {child.exitcode}")


def _judge_once(case: Case) -> None:
    with Judge() as judge:
        judge.judge(case)


def _smaller(case: Case) -> Iterator[Case]:
    """Offer cases with less in them: columns, options, pieces, rows, and at last the plainest way."""
    if case.opened is not None:
        return
    first = case.pieces[0]
    if not isinstance(first, Query):
        yield from _one_column(case)
    if case.options.get("compression", "auto") != "auto":
        yield dataclasses.replace(case, options=case.options | {"compression": "auto"})
    if "index" in case.options:
        yield dataclasses.replace(case, options={k: v for k, v in case.options.items() if k != "index"})
    if len(case.pieces) > 1:
        for i in range(len(case.pieces)):
            yield _with(case, case.pieces[:i] + case.pieces[i + 1 :])
    if not isinstance(first, Query):
        yield from _fewer_rows(case)
    plainest = next(iter(WAYS[origin_of(first)]))
    if case.way != plainest and len(case.pieces) == 1:
        yield dataclasses.replace(case, way=plainest)


def _one_column(case: Case) -> Iterator[Case]:
    first = case.pieces[0]
    names = list(first.columns) if isinstance(first, pd.DataFrame | pl.DataFrame) else first.column_names
    if len(names) > 1:
        for name in names:
            yield _with(case, [_column(piece, name) for piece in case.pieces])


def _with(case: Case, pieces: list[Any]) -> Case:
    return dataclasses.replace(case, pieces=pieces)


def _column(piece: Any, name: Any) -> Any:
    if isinstance(piece, pd.DataFrame):
        return piece[[name]]
    return piece.select([name])


def _fewer_rows(case: Case) -> Iterator[Case]:
    """Leave out a half, a quarter, … of each piece."""
    for i, piece in enumerate(case.pieces):
        rows = len(piece)
        step = rows
        while step > 1:
            step = (step + 1) // 2
            for start in range(0, rows, step):
                if step < rows:
                    kept = _without(piece, start, start + step)
                    yield _with(case, [*case.pieces[:i], kept, *case.pieces[i + 1 :]])


def _without(piece: Any, start: int, end: int) -> Any:
    if isinstance(piece, pd.DataFrame):
        return pd.concat([piece.iloc[:start], piece.iloc[end:]]) if start else piece.iloc[end:]
    if isinstance(piece, pl.DataFrame):
        return pl.concat([piece[:start], piece[end:]], rechunk=False) if start else piece[end:]
    return pa.concat_tables([piece[:start], piece[end:]]) if start else piece[end:]
