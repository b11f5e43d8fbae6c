"""Fresh frames of every kind, sent to the embedded service: what is read back is equal, or it was refused by column.

Each send is drawn from a seed of its own, read cell by cell, sent, read back with Lance, and compared. It ends as

    EQUAL       what was read back is what the frame held, with the type that is promised
    REFUSED     an error of the package, before anything was sent, that names the column
    STRICT      refused so, though the types are promised to be stored: told, and no failure
    LATE        refused by the service after it was sent, by the column's name: told, and no failure
    WRONG       stored as something else, or the frame was changed
    UNREADABLE  stored, and Lance cannot read it
    FOREIGN     another exception, or no column named, or sending had begun
    CRASH, HANG the process died or stood still

Run: ``python -m tests.longer.exact [--sends N] [--seed S] [--only NAME] [--send I]``. The exit code is 1 where any
failed.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from tests.longer.attack import runner
from tests.longer.attack.draw import KINDS, draw
from tests.longer.attack.judge import Judge
from tests.longer.attack.runner import TOLD, Program


def sends_of(seed: str, only: str | None, judge: Judge) -> Program:
    """Make the program that sends frames of some kinds."""
    command = ["tests.longer.exact", "--seed", seed, *(["--only", only] if only else [])]
    return Program(command, lambda number: draw(f"{seed}/{number}", only), judge.judge)


def main() -> None:
    """Run from a shell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sends", type=int, default=10_000)
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(2**32)))
    parser.add_argument("--only", help=f"a part of a kind's name: {', '.join(KINDS)}")
    parser.add_argument("--send", type=int, help="repeat this one of a seed's sends")
    parser.add_argument("--refusals", action="store_true", help="tell the refusals too")
    parser.add_argument("--work", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    judge = Judge()
    program = sends_of(options.seed, options.only, judge)
    if options.work:
        with judge:
            runner.work(program, options.work)
        return
    print(f"seed {options.seed}", flush=True)
    started = time.monotonic()
    numbers = range(options.sends) if options.send is None else range(options.send, options.send + 1)
    counts = runner.run(program, numbers, ("REFUSED", *TOLD) if options.refusals else TOLD)
    runner.print_table(counts)
    print(f"seed {options.seed}, {time.monotonic() - started:.0f} s")
    sys.exit(runner.failed(counts))


if __name__ == "__main__":
    main()
