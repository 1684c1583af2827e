"""Whether declared GPU instances are known to a board and can lie on it together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Protocol

from vgpumgr import catalog
from vgpumgr.catalog import Board, GiProfile, MigBoard
from vgpumgr.spec.partition import Fault
from vgpumgr.spec.problems import did_you_mean, either, shown


class Entry(Protocol):
    """``count`` instances of a profile, with the names of the compute instances in each."""

    @property
    def profile(self) -> str:
        """The profile's name."""

    @property
    def count(self) -> int:
        """Number of GPUs."""

    @property
    def start(self) -> int | None:
        """The first memory slice, where it is fixed (``count`` is 1 then)."""

    @property
    def compute(self) -> Sequence[str]:
        """Names of compute-instance profiles."""


def faults(board: Board, wanted: Sequence[Entry]) -> Iterator[Fault]:
    """Why these instances cannot lie on one GPU of this board; nothing where it is not known.

    Sums and fixed places only: which free places remain is known when the layout is planned.
    """
    mig = catalog.mig(board)
    if mig is None or not wanted:
        return
    profiles = [catalog.gi_profile(board, each.profile) for each in wanted]
    if None in profiles:
        names = [each.name for each in mig.profiles]
        at = profiles.index(None)
        yield _unknown(wanted[at].profile, names, at, f"{board.key} has no GPU instance profiles")
        return
    found = [each for each in profiles if each is not None]
    yield from _counts(board, wanted, found)
    yield from _sums(board, mig, wanted, found)
    yield from _starts(wanted, found)
    for number, (entry, profile) in enumerate(zip(wanted, found, strict=True)):
        yield from _compute(board, entry, profile, number)


def faults_everywhere(wanted: Sequence[Entry]) -> Iterator[Fault]:
    """Why no board of the catalogue can take these instances."""
    boards = [each for each in catalog.boards() if catalog.mig(each) is not None]
    found = [profile for each in boards for profile in _profiles(each)]
    names = {name for each in found for name in (each.name, *each.earlier)}
    for number, entry in enumerate(wanted):
        if entry.profile not in names:
            yield _unknown(
                entry.profile, sorted(names), number, "no board has a GPU instance profile"
            )
            return
    if all(any(faults(board, wanted)) for board in boards):
        yield Fault("no GPU of the catalogue takes these together", ("instances",))


def _profiles(board: Board) -> tuple[GiProfile, ...]:
    mig = catalog.mig(board)
    return mig.profiles if mig else ()


def _unknown(name: str, known: Sequence[str], number: int, says: str) -> Fault:
    near = did_you_mean(name, known) or f"; known are {', '.join(known)}"
    return Fault(f"{says} {shown(name)}{near}", ("instances", number, "profile"))


def _counts(
    board: Board, wanted: Sequence[Entry], profiles: Sequence[GiProfile]
) -> Iterator[Fault]:
    """The maximum of each profile, and one instance with media extensions (``+me``) a GPU."""
    counts: Counter[str] = Counter()
    media = 0
    for number, (entry, profile) in enumerate(zip(wanted, profiles, strict=True)):
        at = ("instances", number)
        counts[profile.name] += entry.count
        if counts[profile.name] > profile.max_instances:
            most = f"at most {profile.max_instances} {profile.name} fit on one {board.key}"
            yield Fault(f"{most}, not {counts[profile.name]}", at)
        media += entry.count if profile.media else 0
        if profile.media and media > 1:
            yield Fault("one instance of a GPU at most has the media engines (+me)", at)


def _sums(
    board: Board, mig: MigBoard, wanted: Sequence[Entry], profiles: Sequence[GiProfile]
) -> Iterator[Fault]:
    pairs = list(zip(wanted, profiles, strict=True))
    slices = sum(entry.count * profile.gpu_slices for entry, profile in pairs)
    size = sum(entry.count * profile.size for entry, profile in pairs)
    if slices > mig.gpu_slices:
        message = f"take {slices} compute slices in all, {board.key} has {mig.gpu_slices}"
        yield Fault(message, ("instances",))
    elif size > mig.grid:
        message = f"take {size} memory slices in all, {board.key} has {mig.grid}"
        yield Fault(message, ("instances",))


def _starts(wanted: Sequence[Entry], profiles: Sequence[GiProfile]) -> Iterator[Fault]:
    placed: list[tuple[int, range]] = []
    for number, (entry, profile) in enumerate(zip(wanted, profiles, strict=True)):
        if entry.start is None:
            continue
        if entry.start not in profile.starts:
            places = either([str(each) for each in profile.starts])
            message = f"{profile.name} begins at {places}, not {entry.start}"
            yield Fault(message, ("instances", number, "start"))
        placed.append((number, range(entry.start, entry.start + profile.size)))
    for (first, under), (second, other) in combinations(placed, 2):
        if set(under) & set(other):
            message = f"overlaps instances[{first}]"
            yield Fault(message, ("instances", second, "start"))


def _compute(board: Board, entry: Entry, profile: GiProfile, number: int) -> Iterator[Fault]:
    known = {each.name: each for each in profile.compute}
    at = ("instances", number, "compute")
    names = [catalog.name_today(board, name) for name in entry.compute]
    for index, name in enumerate(names):
        if name not in known:
            near = did_you_mean(name, known) or f"; known are {', '.join(known)}"
            message = f"{profile.name} holds no compute instance {shown(name)}{near}"
            yield Fault(message, (*at, index))
            return
    for name, count in Counter(names).items():
        if count > known[name].max_instances:
            yield Fault(f"at most {known[name].max_instances} {name} fit in {profile.name}", at)
    slices = sum(known[name].slices for name in names)
    if slices > profile.gpu_slices:
        yield Fault(f"take {slices} compute slices, {profile.name} has {profile.gpu_slices}", at)
