"""What is done in which order, so that whatever is cut by time has covered a part of everything.

First each kill point of each scenario on both stores; then pairs of kills, a few of each scenario,
then a few more. Pure; the same for the same seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

from tests.faults.lane import Job
from tests.faults.points import Pair

# A scenario, and the store that it runs over.
Key = tuple[str, str]
# How much of a scenario a job takes: so many first kills with so many second ones each.
FIRSTS, SECONDS = 2, 6


def shuffled(jobs: Iterable[Job], seed: int) -> list[Job]:
    """In an order that says nothing of what they are."""
    every = sorted(jobs, key=lambda job: (job.scenario, job.store))
    random.Random(seed).shuffle(every)
    return every


def pairs(found: Mapping[Key, Sequence[Pair]], seed: int) -> list[Job]:
    """Jobs for all of these pairs, turn by turn."""
    turns = zip_longest(*(_of_scenario(key, every, seed) for key, every in sorted(found.items())))
    return [job for turn in turns for job in shuffled((each for each in turn if each), seed)]


def _of_scenario(key: Key, found: Sequence[Pair], seed: int) -> Iterator[Job]:
    scenario, store = key
    chance = random.Random(f"{seed} {scenario} {store}")
    firsts = [list(_pieces(each, chance)) for each in found]
    chance.shuffle(firsts)
    pieces = [piece for turn in zip_longest(*firsts) for piece in turn if piece]
    for number in range(0, len(pieces), FIRSTS):
        yield Job(scenario=scenario, store=store, pairs=tuple(pieces[number : number + FIRSTS]))


def _pieces(pair: Pair, chance: random.Random) -> Iterator[Pair]:
    seconds = list(pair.seconds)
    chance.shuffle(seconds)
    for number in range(0, len(seconds), SECONDS):
        yield Pair(pair.at, pair.end, tuple(sorted(seconds[number : number + SECONDS])))
