"""Lies: which there are, in what order they are told, and what meets each."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from tests.hostile.nonsense import fields, texts
from tests.hostile.tally import Tally
from tests.hostile.trials import PROBE, TRIALS, Trial
from tests.hostile.world import BAD, READS, SELDOM, World, asked, cost, world

PER_FIELD = 50
_WEIGHED = 4
# One lie in so many meets all commands of its trial, not only the one that asks, and a look at
# the whole ledger.
_NOW_AND_THEN = 16
_KEPT_EVERY = 200


@dataclass(frozen=True, slots=True)
class Lie:
    """One part of one verb's answer, and what stands there instead; ``at`` is the first of the
    trial's commands that asks for it.
    """

    trial: Trial
    at: int
    verb: str
    path: str
    text: str

    @property
    def field(self) -> str:
        """The field of all answers of that verb, whichever object of a list it is of."""
        return f"{self.verb} {'.'.join(p for p in self.path.split('.') if not p.isdecimal())}"

    def __str__(self) -> str:
        return f"{self.trial.name}: {self.verb} {self.path} = {self.text[:60]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """What of all lies is told: those of some trials, one part of the fields, at most so many."""

    seed: int = 1
    minutes: float = 60.0
    per_field: int = PER_FIELD
    only: Sequence[str] = ()
    most: int | None = None
    part: tuple[int, int] = (1, 1)
    weigh: bool = False


def run(extent: Extent, keep: Callable[[Tally], object] = lambda _: None) -> Tally:
    """Tell lies in an order that meets every field once before any twice, until the time is up."""
    tally = Tally()
    end = time.monotonic() + extent.minutes * 60
    chosen = [each for each in TRIALS if not extent.only or each.name in extent.only]
    with Worlds(tally) as worlds:
        lies = [each for trial in chosen for each in _lies(worlds[trial.fleet], trial, extent.seed)]
        told = list(_chosen(lies, extent))
        tally.possible = len(told)
        believed: list[Lie] = []
        for number, lie in enumerate(told[: extent.most]):
            if time.monotonic() > end:
                break
            if not _refused(worlds, lie, number):
                believed.append(lie)
            if number % _KEPT_EVERY == 0:
                keep(tally)
        if extent.weigh:
            first = chosen[0].fleet
            for of in (told, believed):
                _weigh(worlds[first], _largest(of, first))
    return tally


class Worlds:
    """A world for each fleet, made when it is asked for; another takes the place of a worn one."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self._made: dict[str, tuple[World, ExitStack]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._made):
            self.leave(name)

    def __getitem__(self, name: str) -> World:
        if name not in self._made:
            stack = ExitStack()
            self._made[name] = stack.enter_context(world(self.tally, name)), stack
        return self._made[name][0]

    def leave(self, name: str) -> None:
        """No more of that one."""
        self._made.pop(name)[1].close()


def _refused(worlds: Worlds, lie: Lie, number: int) -> bool:
    """Tell it, and count it once; where nobody asked, the world is worn by the lies before, and it
    is told in another.
    """
    tally, fleet = worlds.tally, lie.trial.fleet
    heard, refused = _tell(worlds[fleet], lie, number)
    if not heard:
        worlds.leave(fleet)
        heard, refused = _tell(worlds[fleet], lie, number)
    tally.mutations += 1
    tally.refused += refused
    if heard:
        tally.fields[lie.field] += 1
    else:
        tally.unheard += 1
    return refused


def _largest(lies: Iterable[Lie], fleet: str) -> list[Lie]:
    probed = (each for each in lies if each.verb == PROBE and each.trial.fleet == fleet)
    return sorted(probed, key=lambda lie: -len(lie.text))[:_WEIGHED]


def _weigh(made: World, lies: Sequence[Lie]) -> None:
    """Lies in processes of their own, beside the truth: CPU seconds and peak MiB."""
    commands = ("host", "probe", BAD), ("gpu", "list"), ("map",), ("plan", "-f", "{wish}")
    clean = {words: cost(made, *words) for words in commands}
    for lie in lies:
        made.lie(lie.verb, lie.path, lie.text)
        for words, before in clean.items():
            made.tally.weigh(" ".join(words[:2]), str(lie), before, cost(made, *words))
        made.truthful()


def _lies(made: World, trial: Trial, seed: int) -> Iterator[Lie]:
    """Every field of every answer to what the trial asks, fifty ways and more."""
    rng = random.Random(f"{seed} {trial.name}")
    told: dict[tuple[str, str], tuple[int, object]] = {}
    for at, found in enumerate(_acts(made, trial)):
        for verb, answer in asked(found):
            lied = verb in trial.verbs if trial.verbs else verb != PROBE
            for path, part in fields(json.loads(answer)) if lied else ():
                first, fullest = told.get((verb, path), (at, None))
                if not fullest:
                    told[verb, path] = first, part
    _mend(made, trial)
    for (verb, path), (at, part) in told.items():
        for text in texts(part, rng):
            yield Lie(trial, at, verb, path, text)


def _chosen(lies: Iterable[Lie], extent: Extent) -> Iterator[Lie]:
    """Different texts of each field, by whichever trial and object; every field once before any
    twice, those of all verbs mixed, so that the first few are a sample of all.
    """
    rng = random.Random(extent.seed)
    by_field: dict[str, dict[str, list[Lie]]] = {}
    for lie in lies:
        by_field.setdefault(lie.field, {}).setdefault(lie.text, []).append(lie)
    part, parts = extent.part
    queues = []
    for _, by_text in sorted(by_field.items())[part - 1 :: parts]:
        different = [rng.choice(each) for each in by_text.values()]
        rng.shuffle(different)
        queues.append(different[: extent.per_field])
    rng.shuffle(queues)
    for number in range(extent.per_field):
        for queue in queues:
            yield from queue[number : number + 1]


def _tell(made: World, lie: Lie, number: int) -> tuple[bool, bool]:
    """Was it heard, was it refused?

    What is believed, and never was before, is met by all that reads; where the ledger is as it was
    at some time before, one of those commands in turn looks again.
    """
    of = str(lie)
    acts = list(_acts(made, lie.trial, of=of))
    for each in acts[: lie.at]:
        each()
    made.lie(lie.verb, lie.path, lie.text)
    last = None if number % _NOW_AND_THEN == 0 else lie.at + 1
    codes: list[int] = []
    told = asked(lambda: codes.extend(code for act in acts[lie.at : last] for code in act()))
    refused = any(codes)
    fresh = not refused and made.learned()
    made.tally.understood_anew += fresh
    for words in READS if fresh else READS[number % len(READS) :][:1]:
        made.run(*words, of=of)
    if number % _NOW_AND_THEN == 0:
        made.run(*SELDOM, of=of)
    made.unharmed(of)
    made.truthful()
    made.lift()
    if lie.trial.mend and not (refused and lie.verb == PROBE):
        _mend(made, lie.trial)
    return any(verb == lie.verb for verb, _ in told), refused


def _acts(made: World, trial: Trial, of: str = "") -> Iterator[Callable[[], list[int]]]:
    """What is done in turn, as calls that give exit codes."""
    if not trial.dies:
        for words in trial.act:
            yield lambda words=words: [made.run(*words, of=of).code]  # type: ignore[misc]
        return

    def die() -> list[int]:
        made.die(trial.dies, *trial.act[0])
        return []

    def resume() -> list[int]:
        return [
            made.run("operation", "resume", each, of=of).code for each in made.open_operations()
        ]

    yield die
    yield resume


def _mend(made: World, trial: Trial) -> None:
    if trial.verbs != (PROBE,):
        for operation in made.open_operations():
            if made.run("operation", "resume", operation).code:
                made.run("operation", "undo", operation)
    for each in trial.mend:
        made.run(*each)
