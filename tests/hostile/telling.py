"""Lies: which there are, in what order they are told, and what meets each."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from tests.hostile.nonsense import fields, texts
from tests.hostile.tally import Tally
from tests.hostile.trials import PROBE, TRIALS, Trial, Words
from tests.hostile.world import READS, SELDOM, World, asked, cost, world

PER_FIELD = 50
_WEIGHED = 4
TOGETHER = 12
# One group in so many meets all commands of its trial, not only the one that asks, and a look at
# the whole ledger.
_NOW_AND_THEN = 8
_KEPT_EVERY = 20


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
    """What of all lies is told: those of some trials, one part of the fields, at most so many,
    ``together`` by as many hosts at a time.
    """

    seed: int = 1
    minutes: float = 60.0
    per_field: int = PER_FIELD
    only: Sequence[str] = ()
    most: int | None = None
    part: tuple[int, int] = (1, 1)
    weigh: bool = False
    together: int = TOGETHER


def run(extent: Extent, keep: Callable[[Tally], object] = lambda _: None) -> Tally:
    """Tell lies in an order that meets every field once before any twice, until the time is up.

    Lies that hosts believed are told once more, together, to all that reads.
    """
    tally = Tally()
    end = time.monotonic() + extent.minutes * 60
    chosen = [each for each in TRIALS if not extent.only or each.name in extent.only]
    with Worlds(tally, extent.together) as worlds:
        lies = [each for trial in chosen for each in _lies(worlds[trial.fleet], trial, extent.seed)]
        told = list(_chosen(lies, extent))
        tally.possible = len(told)
        believed: dict[str, list[Lie]] = {}
        largest: list[Lie] = []
        for number, group in enumerate(_groups(told[: extent.most], extent.together)):
            if time.monotonic() > end:
                break
            waiting = believed.setdefault(group[0].trial.fleet, [])
            waiting += _told(worlds, group, number)
            largest = _largest((*largest, *waiting), chosen[0].fleet)
            while len(waiting) >= extent.together:
                judged(worlds, waiting[: extent.together], READS)
                del waiting[: extent.together]
            if number % _KEPT_EVERY == 0:
                keep(tally)
        for waiting in filter(None, believed.values()):
            judged(worlds, waiting, READS)
        if extent.weigh:
            for of in (_largest(told, chosen[0].fleet), largest):
                _weigh(worlds[chosen[0].fleet], of)
    return tally


def _groups(lies: Iterable[Lie], most: int) -> Iterator[list[Lie]]:
    """So many lies that the same command hears, in the order in which they are enough."""
    waiting: dict[tuple[str, int], list[Lie]] = {}
    for lie in lies:
        group = waiting.setdefault((lie.trial.name, lie.at), [])
        group.append(lie)
        if len(group) == most:
            yield waiting.pop((lie.trial.name, lie.at))
    yield from waiting.values()


class Worlds:
    """A world for each fleet, made when it is asked for; another takes the place of a worn one."""

    def __init__(self, tally: Tally, together: int) -> None:
        self.tally = tally
        self._together = together
        self._made: dict[str, tuple[World, ExitStack]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._made):
            self.leave(name)

    def __getitem__(self, name: str) -> World:
        if name not in self._made:
            stack = ExitStack()
            self._made[name] = stack.enter_context(world(self.tally, name, self._together)), stack
        return self._made[name][0]

    def leave(self, name: str) -> None:
        """No more of that one."""
        self._made.pop(name)[1].close()


def _told(worlds: Worlds, lies: Sequence[Lie], number: int) -> list[Lie]:
    """Tell them, count each once, and give those that were believed as none before.

    What nobody asked for is told alone: another lie was in the way; then in another world, since
    this one is worn.
    """
    tally, fleet = worlds.tally, lies[0].trial.fleet
    reads = READS[number % len(READS) :][:1]
    if number % _NOW_AND_THEN == 0:
        reads = (*reads, SELDOM)
    heard, believed = judged(worlds, lies, reads, whole=number % _NOW_AND_THEN == 0)
    for lie in (each for each in lies if each not in heard):
        tally.alone += 1
        again, more = judged(worlds, [lie], reads)
        if not again:
            worlds.leave(fleet)
            again, more = judged(worlds, [lie], reads)
        heard, believed = [*heard, *again], [*believed, *more]
    tally.mutations += len(lies)
    tally.unheard += len(lies) - len(heard)
    tally.fields.update(each.field for each in heard)
    tally.understood_anew += len(believed)
    return believed


def judged(
    worlds: Worlds, lies: Sequence[Lie], reads: Iterable[Words], *, whole: bool = False
) -> tuple[list[Lie], list[Lie]]:
    """Those of them that were heard and that were believed. Where something was a fault of ours,
    each is told alone in a world where no lie was told, so that the fault has a name.
    """
    fleet, tally, reads = lies[0].trial.fleet, worlds.tally, list(reads)
    made = worlds[fleet]
    found = _round(made, dict(zip(made.bad, lies, strict=False)), reads, whole=whole)
    if not made.faults:
        return found
    worlds.leave(fleet)
    if len(lies) == 1:
        tally.faults += [f"{lies[0]}: {each}" for each in made.faults]
        return found
    before = len(tally.faults)
    for lie in lies:
        judged(worlds, [lie], reads, whole=whole)
    if len(tally.faults) == before:
        together = "; ".join(map(str, lies))
        tally.faults += [f"{each}, only together: {together}" for each in made.faults]
    return found


def _largest(lies: Iterable[Lie], fleet: str) -> list[Lie]:
    probed = (each for each in lies if each.verb == PROBE and each.trial.fleet == fleet)
    return sorted(probed, key=lambda lie: -len(lie.text))[:_WEIGHED]


def _weigh(made: World, lies: Sequence[Lie]) -> None:
    """Lies in processes of their own, and the truth: CPU seconds and peak MiB."""
    commands = ("host", "probe", "{hosts}"), ("gpu", "list"), ("map",), ("plan", "-f", "{wish}")
    clean = {words: cost(made, *words) for words in commands}
    for lie in lies:
        made.lie(made.bad[0], lie.verb, lie.path, lie.text)
        for words, before in clean.items():
            made.tally.weigh(" ".join(words[:2]), str(lie), before, cost(made, *words))
        made.truthful(made.bad[:1])


def _lies(made: World, trial: Trial, seed: int) -> Iterator[Lie]:
    """Every field of every answer to what the trial asks, fifty ways and more."""
    rng = random.Random(f"{seed} {trial.name}")
    told: dict[tuple[str, str], tuple[int, object]] = {}
    for at, found in enumerate(_acts(made, trial, made.bad[:1])):
        for _, verb, answer in asked(found):
            lied = verb in trial.verbs if trial.verbs else verb != PROBE
            for path, part in fields(json.loads(answer)) if lied else ():
                first, fullest = told.get((verb, path), (at, None))
                if not fullest:
                    told[verb, path] = first, part
    _mend(made, trial, made.bad[:1])
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


def _round(
    made: World, lies: Mapping[str, Lie], reads: Iterable[Words], *, whole: bool
) -> tuple[list[Lie], list[Lie]]:
    """Each host tells its lie; ``whole``: all commands of a trial meet it, not only the first."""
    alike: dict[tuple[Trial, int], list[str]] = {}
    for host, lie in lies.items():
        alike.setdefault((lie.trial, lie.at), []).append(host)
    asks: list[tuple[str, str, bytes]] = []
    for (trial, at), hosts in alike.items():
        acts = list(_acts(made, trial, hosts, lied=True))
        for each in acts[:at]:
            each()
        for host in hosts:
            made.lie(host, lies[host].verb, lies[host].path, lies[host].text)
        asks += asked(lambda acts=acts[at : None if whole else at + 1]: [act() for act in acts])  # type: ignore[misc]
    believed = made.learned(list(lies))
    for words in reads:
        made.run(words, list(lies), lied=True)
    made.unharmed()
    made.truthful(list(lies))
    made.lift()
    for (trial, _), hosts in alike.items():
        _mend(made, trial, [each for each in hosts if trial.verbs != (PROBE,) or each in believed])
    heard = {(host, verb) for host, verb, _ in asks}
    return (
        [lie for host, lie in lies.items() if (host, lie.verb) in heard],
        [lies[host] for host in believed],
    )


def _acts(
    made: World, trial: Trial, hosts: Sequence[str], *, lied: bool = False
) -> Iterator[Callable[[], object]]:
    """What is done in turn, as calls."""
    if not trial.dies:
        for words in trial.act:
            yield lambda words=words: made.run(words, hosts, lied=lied)  # type: ignore[misc]
        return

    def resume() -> None:
        for each in made.open_operations():
            made.run(("operation", "resume", each), lied=lied)

    yield lambda: made.die(trial.dies, trial.act[0], hosts)
    yield resume


def _mend(made: World, trial: Trial, hosts: Sequence[str]) -> None:
    if trial.verbs != (PROBE,):
        for operation in made.open_operations():
            if made.run(("operation", "resume", operation)):
                made.run(("operation", "undo", operation))
    for each in trial.mend if hosts else ():
        made.run(each, hosts)
