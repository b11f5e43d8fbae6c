"""Run a program of this folder for many rounds, with a new seed each time."""

from __future__ import annotations

import argparse
import random

from tests.longer import (
    accessors,
    bounds,
    cluster,
    fronts,
    interrupts,
    late,
    mutations,
    nightly,
    nights,
    power,
    writers,
)
from tests.support.processes import hear_interrupts

PROGRAMS = {
    "streams": mutations.streams,
    "answers": mutations.answers,
    "accessors": accessors.run,
    "bounds": bounds.run,
    "nightly": nightly.run,
    "writers": writers.run,
    "nights": nights.run,
    "power": power.run,
    "cluster": cluster.run,
    "interrupts": interrupts.run,
    "late": late.run,
    "fronts": fronts.run,
    "names": fronts.run_names,
}

if __name__ == "__main__":
    hear_interrupts()
    parser = argparse.ArgumentParser(prog="python -m tests.longer", description=__doc__)
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument(
        "--count", type=int, default=300, help="how many answers, interrupts, …"
    )
    parser.add_argument(
        "--seed", type=int, default=random.SystemRandom().randrange(2**32)
    )
    asked = parser.parse_args()
    print(f"seed {asked.seed}")
    for what, many in sorted(PROGRAMS[asked.program](asked.count, asked.seed).items()):
        print(f"{what}: {many}")
