"""Trials: which answers are made nonsense, by which command they are asked for, in what order."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.hostile.nonsense import fields, texts
from tests.hostile.world import BAD, READS, Tally, World, cost, taped, world

PROBE = "probe"
_WEIGHED = 10
_NOW_AND_THEN = 4
_LOST = '{"ok": false, "error": {"code": "unknown", "message": "the answer was lost"}}'


@dataclass(frozen=True, slots=True)
class Trial:
    """Commands that ask a host by some verbs, and those that put things right again.

    ``cut`` is a verb whose answers are lost first, so that what was begun is looked at when it is
    gone on with; ``verbs`` alone are lied about, any but ``probe`` where it is empty.
    """

    name: str
    act: tuple[tuple[str, ...], ...]
    mend: tuple[tuple[str, ...], ...] = ()
    verbs: tuple[str, ...] = ()
    cut: str = ""


def _gone(name: str) -> tuple[str, ...]:
    return ("vm", "delete", name, "--force", "-y")


def _life(name: str) -> Trial:
    """A VM made, stopped, started, gone."""
    file = f"{{{name}}}"
    stop, start = ("vm", "stop", name, "--force"), ("vm", "start", name)
    return Trial(name, (("apply", "-f", file), stop, start, _gone(name)), (_gone(name),))


def _cut(name: str, verb: str) -> Trial:
    """A VM whose device was made, and nobody heard of it."""
    act = (("apply", "-f", f"{{{name}}}"),)
    return Trial(f"{name} cut", act, (_gone(name),), cut=verb)


_LAYOUTS = (
    ("layout", "apply", "-f", "{other}", "-y"),
    ("layout", "apply", "-f", "{layout}", "-y"),
)
TRIALS = (
    Trial("probe", (("host", "probe", BAD),), verbs=(PROBE,)),
    Trial("doctor", (("doctor", BAD),), verbs=("examine", "kvm_probe")),
    _life("mdev"),
    _life("vf"),
    _life("instance"),
    _life("whole"),
    _life("disk"),
    _cut("mdev", "mdev_create"),
    _cut("vf", "vgpu_create"),
    _cut("instance", "vgpu_create"),
    _cut("whole", "vfio_bind"),
    Trial("layout", _LAYOUTS, _LAYOUTS[1:]),
    Trial("layout cut", _LAYOUTS[:1], _LAYOUTS[1:], cut="gi_create"),
    Trial("layout kept", _LAYOUTS[:1], _LAYOUTS[1:], cut="layout_claim"),
    Trial("upgrade", (("host", "upgrade", BAD),)),
)


@dataclass(frozen=True, slots=True)
class Lie:
    """One part of one verb's answer, and what stands there instead."""

    trial: Trial
    verb: str
    path: str
    text: str

    @property
    def field(self) -> str:
        """The field of all answers of that verb, whichever object of a list it is of."""
        return f"{self.verb} {'.'.join(p for p in self.path.split('.') if not p.isdecimal())}"

    def __str__(self) -> str:
        return f"{self.verb} {self.path} = {self.text[:60]}"


def run(
    seed: int,
    minutes: float,
    only: Sequence[str] = (),
    most: int | None = None,
    *,
    weigh: bool = False,
) -> Tally:
    """Tell lies in an order that meets every field once before any twice, until the time is up."""
    tally = Tally()
    end = time.monotonic() + minutes * 60
    with world(tally) as made:
        chosen = [each for each in TRIALS if not only or each.name in only]
        lies = [lie for trial in chosen for lie in _lies(made, trial, random.Random(seed))]
        tally.possible = len(lies)
        for number, lie in enumerate(_round_robin(lies, random.Random(seed))):
            if time.monotonic() > end or (most is not None and number >= most):
                break
            _tell(made, lie, number)
        made.unharmed("in the end")
        if weigh:
            _weigh(made, [lie for lie in lies if lie.verb == PROBE])
    return tally


def _weigh(made: World, lies: Sequence[Lie]) -> None:
    """The largest lies in processes of their own, beside the truth: CPU seconds and peak MiB."""
    commands = ("host", "probe", BAD), ("gpu", "list"), ("map",), ("plan", "-f", made.files["wish"])
    largest = sorted(lies, key=lambda lie: -len(lie.text))[:_WEIGHED]
    for lie in (None, *largest):
        if lie is not None:
            made.lie(lie.verb, lie.path, lie.text)
        for words in commands:
            name = f"{' '.join(words[:2])}: {'the truth' if lie is None else str(lie)[:90]}"
            made.tally.processes[name] = cost(made, *words)
        made.truthful()


def _lies(made: World, trial: Trial, rng: random.Random) -> Iterator[Lie]:
    """Every field of every answer to what the trial asks, fifty ways and more."""
    tape = taped(lambda: _act(made, trial, None))
    _mend(made, trial)
    for verb, answers in tape.items():
        if (trial.verbs and verb not in trial.verbs) or (not trial.verbs and verb == PROBE):
            continue
        told: dict[str, object] = {}
        for answer in answers:
            for path, found in fields(answer):
                if not told.get(path):
                    told[path] = found
        for path, found in told.items():
            for text in texts(found, rng):
                yield Lie(trial, verb, path, text)


def _round_robin(lies: Sequence[Lie], rng: random.Random) -> Iterator[Lie]:
    by_field: dict[str, list[Lie]] = {}
    for lie in lies:
        by_field.setdefault(lie.field, []).append(lie)
    for each in by_field.values():
        rng.shuffle(each)
    queues = list(by_field.values())
    while queues:
        for queue in queues:
            yield queue.pop()
        queues = [queue for queue in queues if queue]


def _tell(made: World, lie: Lie, number: int) -> None:
    tally, name = made.tally, str(lie)
    tally.mutations += 1
    tally.fields[lie.field] = tally.fields.get(lie.field, 0) + 1
    refused = any(_act(made, lie.trial, lie))
    tally.refused += refused
    # What was refused is not in the ledger: those that look again meet it, now and then.
    if lie.verb == PROBE and (not refused or number % _NOW_AND_THEN == 0):
        _read(made, name, number)
    made.unharmed(name)
    made.truthful()
    made.run("host", "probe", BAD)
    _mend(made, lie.trial)


def _act(made: World, trial: Trial, lie: Lie | None) -> list[int]:
    """The exit codes of what meets the lie."""
    of = str(lie) if lie else ""
    if trial.cut:
        made.lie(trial.cut, "", _LOST)
        for each in trial.act:
            made.run(*each)
        made.truthful()
    if lie is not None:
        made.lie(lie.verb, lie.path, lie.text)
    if trial.cut:
        open_ = made.open_operations()
        return [made.run("operation", "resume", each, of=of).code for each in open_]
    return [made.run(*each, of=of).code for each in trial.act]


def _read(made: World, name: str, number: int) -> None:
    """What reads the ledger and looks again: a third of the commands each time."""
    for at, words in enumerate(READS):
        if at % 3 == number % 3:
            made.run(*words, of=name)


def _mend(made: World, trial: Trial) -> None:
    for operation in made.open_operations():
        if made.run("operation", "resume", operation).code:
            made.run("operation", "undo", operation)
    for each in trial.mend:
        made.run(*each)
