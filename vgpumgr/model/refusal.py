"""What a GPU or a host refused, for how long that holds, and what sets it aside. Pure.

Every refusal is a reason to try another place in the same operation. Those that are evidence
against the place count: it is in back-off for a while, each time for longer: who asks now chooses
it last, the queue and pools wait. After several without a success in between it is set aside until
an operator says otherwise: a GPU is quarantined, a host cordoned.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from vgpumgr.model.formats import span_words


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A GPU (our id), or where ``gpu`` is empty the host itself, refused a step of a task.

    ``counts``: it is evidence against that place; any other is only a reason to try elsewhere.
    ``if_taken``: it counts once another host took the VM, for until then the VM may be at fault.
    Until ``until`` (Unix seconds) the place is in back-off, ``left_s`` is how many seconds of that
    are left at the reading.
    """

    at: float
    host: str
    vm: str
    operation: str
    task: str
    what: str
    why: str
    gpu: str = ""
    counts: bool = True
    if_taken: bool = False
    until: float = 0.0
    left_s: float = 0.0

    @property
    def place(self) -> tuple[str, str]:
        """Host and GPU; the host alone where it was the host that refused."""
        return self.host, self.gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """A place is set aside after ``most`` refusals that count (0: never). With the first it is in
    back-off, which is to be chosen last, for ``first_s`` seconds, with each further one for twice
    as long, up to ``longest_s``.
    """

    most: int = 3
    first_s: float = 60.0
    longest_s: float = 3600.0

    def back_off(self, before: Sequence[Refusal], refusal: Refusal) -> float:
        """For how many seconds the place is chosen last; ``before`` are its open refusals."""
        if not refusal.counts:
            return 0.0
        times = len(_evidence((*before, refusal)))
        return float(min(self.longest_s, self.first_s * 2 ** min(times - 1, 32)))

    def sets_aside(self, before: Sequence[Refusal], refusal: Refusal) -> str:
        """Why the place is set aside with this refusal; empty where it is not (yet)."""
        found = _evidence((*before, refusal))
        if not refusal.counts or self.most == 0 or len(found) < self.most:
            return ""
        kind = "operations" if refusal.gpu else "VMs"
        return f"{summary([*before, refusal])}; {kind} {_named(found)}"


TOLERANCE = Tolerance()


def of_place(refusals: Iterable[Refusal], host: str, gpu: str) -> list[Refusal]:
    """The refusals of one GPU, or of the host itself."""
    return [each for each in refusals if each.place == (host, gpu)]


def summary(refusals: Sequence[Refusal]) -> str:
    """``it refused 2 times, last to make T4-4Q (EIO, Input/output error)``."""
    last, times = refusals[-1], len(_evidence(refusals))
    often = "" if times <= 1 else f" {times} times, last"
    return f"it refused{often} to {last.what} ({last.why})"


def back_off(refusals: Sequence[Refusal]) -> str:
    """Why a place is in back-off now; empty where it is not."""
    counted = [each for each in refusals if each.counts]
    left = max((each.left_s for each in counted), default=0.0)
    return f"{summary(counted)}; in back-off for {span_words(left)} more" if left > 0 else ""


def _evidence(refusals: Iterable[Refusal]) -> tuple[str, ...]:
    """What counts once: of a GPU each operation, for many VMs of one meet the same moment; of a
    host each VM.
    """
    return tuple(
        dict.fromkeys(each.operation if each.gpu else each.vm for each in refusals if each.counts)
    )


def _named(found: Collection[str], most: int = 5) -> str:
    return ", ".join(each[:8] if len(each) == 36 else each for each in list(found)[-most:])
