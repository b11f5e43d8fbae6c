"""Judge numbered cases in a process of their own: where one kills it, the next process goes on behind that case.

A program hands over how a case is drawn and judged, calls ``run`` in a shell's process, and ``work`` in the processes
that ``run`` starts with ``--work``. A process writes a line of JSON before and after each case.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import select
import subprocess
import sys
import tempfile
import warnings
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from tests.longer.attack.judge import FAILURES, VERDICTS, Outcome
from tests.longer.attack.shrink import attempt_apart, shrunk

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

PATIENCE = 180  # seconds in which a case must end
TOLD = ("STRICT", "LATE", *FAILURES)
SHOWN_CASE, SHOWN_DETAIL = 1000, 800  # characters
SKIPPED = "SKIPPED"  # no case: the source itself could not be read

Counts = dict[str, collections.Counter[str]]


class Described(Protocol):
    """What is judged."""

    kind: str

    def describe(self) -> str:
        """Tell how to make it by hand."""


@dataclasses.dataclass
class Program:
    """How a program's workers are started, and what they do: ``draw`` gives None where there is nothing to send."""

    command: list[str]
    draw: Callable[[int], Described | None]
    judge: Callable[[Any], Outcome]


def work(program: Program, what: list[str]) -> None:
    """Do what ``--work`` says: judge the cases from a number to another, or make a deadly one smaller."""
    warnings.simplefilter("ignore")
    if len(what) == 2:
        _judge_all(program, range(int(what[0]), int(what[1])))
        return
    number, verdict, cause = what
    case, _ = shrunk(attempt_apart, program.draw(int(number)), Outcome(verdict, cause))
    _say({"case": case.describe()})


def _judge_all(program: Program, numbers: range) -> None:
    known: set[tuple[str, str]] = set()
    for number in numbers:
        case = program.draw(number)
        if case is None:
            _say({"number": number, "kind": "", "case": ""})
            _say({"number": number, "verdict": SKIPPED})
            continue
        _say({"number": number, "kind": case.kind, "case": case.describe()})
        outcome = program.judge(case)
        cause = (outcome.verdict, outcome.cause)
        if outcome.verdict in FAILURES and cause not in known:
            known.add(cause)
            case, outcome = shrunk(program.judge, case, outcome)
        _say({"number": number, "case": case.describe(), **dataclasses.asdict(outcome)})


def _say(line: dict[str, Any]) -> None:
    print(json.dumps(line, default=str), flush=True)


def outcomes(program: Program, numbers: range) -> Iterator[dict[str, Any]]:
    """Let workers judge the cases; where one dies or stands still, the next goes on behind that case."""
    first = numbers.start
    while first < numbers.stop:
        with tempfile.TemporaryFile("w+") as errors:
            worker = _start(program, errors, first, numbers.stop)
            begun: dict[str, Any] = {"number": first - 1}
            for line in _lines(worker):
                if "verdict" in line:
                    yield {**begun, **line}
                    first = line["number"] + 1
                else:
                    begun = line
            verdict = "HANG" if worker.poll() is None else "CRASH"
            _end(worker)
            if first == numbers.stop:
                return
            if begun["number"] == first:  # else it died where a case was drawn, which is no fault of the package
                died = {"verdict": verdict, "cause": f"exit code {worker.returncode}", "detail": _tail(errors)}
                yield {**begun, **died, "case": _smallest(program, first, died) or begun["case"]}
            first += 1


def _start(program: Program, errors: TextIO, *what: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", *program.command, "--work", *map(str, what)]
    environment = {**os.environ, "RUST_BACKTRACE": "0", "POLARS_MAX_THREADS": "1", "PYTHONFAULTHANDLER": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)


def _lines(worker: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """Read a worker's lines until it ends, or says nothing for too long."""
    while select.select([worker.stdout], [], [], PATIENCE)[0]:
        line = worker.stdout.readline()
        if not line:
            worker.wait()
            return
        if line.startswith("{"):
            yield json.loads(line)


def _end(worker: subprocess.Popen[str]) -> None:
    worker.kill()
    worker.wait()
    worker.stdout.close()


def _tail(errors: TextIO) -> str:
    """Tell where a process died."""
    errors.seek(0)
    return " ".join(errors.read().partition("\nExtension modules")[0].split())[-SHOWN_DETAIL:]


def _smallest(program: Program, number: int, died: dict[str, Any]) -> str | None:
    with tempfile.TemporaryFile("w+") as errors:
        worker = _start(program, errors, number, died["verdict"], died["cause"])
        lines = list(_lines(worker))
        _end(worker)
    return lines[-1]["case"] if lines else None


def run(program: Program, numbers: range, told: Collection[str] = TOLD) -> Counts:
    """Judge the cases, print each cause once, and count verdicts by kind."""
    counts: Counts = collections.defaultdict(collections.Counter)
    causes: dict[tuple[str, str], list[dict[str, Any]]] = collections.defaultdict(list)
    for line in outcomes(program, numbers):
        counts[line["kind"]][line["verdict"]] += 1
        if line["verdict"] in told:
            causes[line["verdict"], line["cause"]].append(line)
    for (verdict, cause), lines in sorted(causes.items()):
        shortest = min(lines, key=lambda line: len(line["case"]))
        kinds = ", ".join(sorted({line["kind"] for line in lines}))
        sends = " ".join(str(line["number"]) for line in lines[:5])
        print(f"\n{verdict} {len(lines)} times, {kinds}: {cause}\n  --send {sends}")
        print(f"  {shortest['case'][:SHOWN_CASE]}\n  {shortest['detail'][:SHOWN_DETAIL]}")
    return counts


def print_table(counts: Counts) -> None:
    """Print verdicts by kind."""
    skipped = counts.pop("", {}).get(SKIPPED, 0)
    total: collections.Counter[str] = sum(counts.values(), collections.Counter())
    wide = max(map(len, ["all", *counts])) + 1
    print(f"\n{'':{wide}}" + "".join(f"{verdict:>11}" for verdict in VERDICTS))
    for kind, verdicts in [*sorted(counts.items()), ("all", total)]:
        print(f"{kind:{wide}}" + "".join(f"{verdicts[verdict]:11,}" for verdict in VERDICTS))
    if skipped:
        print(f"{skipped:,} sources could not be read by their own library")


def failed(counts: Counts) -> bool:
    """Tell whether anything broke the promise."""
    return any(verdicts[verdict] for verdicts in counts.values() for verdict in FAILURES)
