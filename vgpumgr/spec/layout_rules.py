"""Contradictions in a layout: within one GPU's partitioning, and against the catalogue."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

from vgpumgr import catalog
from vgpumgr.catalog import Board, GiProfile, MigBoard
from vgpumgr.model.layout import VFS_MAX, GpuLayout, Scheduler
from vgpumgr.spec.spec_file import Path, did_you_mean, either, shown

_NOTHING = GpuLayout()


@dataclass(frozen=True, slots=True)
class LayoutFault:
    """A rule that is broken, and the key path below the layout rule where it shows."""

    message: str
    at: Path = ()


def contradictions(layout: GpuLayout) -> Iterator[LayoutFault]:
    """The contradictions within one GPU's layout.

    Source: NVIDIA AI Enterprise user guide (mixed-size mode: SR-IOV boards, no fixed share, lost
    when VFs go off); a GPU hosts time-sliced or MIG-backed vGPUs, never both.
    """
    if layout == _NOTHING:
        yield LayoutFault("says nothing: add mig, vfs, mixed_size, instances, scheduler or power")
    if layout.instances and layout.mig is False:
        yield LayoutFault("there are no GPU instances with mig: false", ("instances",))
    if layout.scheduler_timing is not None and layout.scheduler in {None, Scheduler.BEST_EFFORT}:
        needs = "needs scheduler: equal-share or fixed-share, which deal out time"
        yield LayoutFault(needs, ("scheduler_timing",))
    if not layout.mixed_size:
        return
    if layout.mig:
        yield LayoutFault(
            "mixed-size vGPUs are time-sliced: no GPU has them with MIG", ("mixed_size",)
        )
    if layout.vfs == 0:
        yield LayoutFault("mixed-size mode is lost without VFs: write vfs: max", ("mixed_size",))
    if layout.scheduler is Scheduler.FIXED_SHARE:
        yield LayoutFault("the fixed-share scheduler does not work with mixed_size", ("scheduler",))


class DeclaredInstance(Protocol):
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


def instance_faults(board: Board, wanted: Sequence[DeclaredInstance]) -> Iterator[LayoutFault]:
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


def instance_faults_everywhere(wanted: Sequence[DeclaredInstance]) -> Iterator[LayoutFault]:
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
    if all(any(instance_faults(board, wanted)) for board in boards):
        yield LayoutFault("no GPU of the catalogue takes these together", ("instances",))


def _profiles(board: Board) -> tuple[GiProfile, ...]:
    mig = catalog.mig(board)
    return mig.profiles if mig else ()


def _unknown(name: str, known: Sequence[str], number: int, says: str) -> LayoutFault:
    near = did_you_mean(name, known) or f"; known are {', '.join(known)}"
    return LayoutFault(f"{says} {shown(name)}{near}", ("instances", number, "profile"))


def _counts(
    board: Board, wanted: Sequence[DeclaredInstance], profiles: Sequence[GiProfile]
) -> Iterator[LayoutFault]:
    """The maximum of each profile, and one instance with media extensions (``+me``) a GPU."""
    counts: Counter[str] = Counter()
    media = 0
    for number, (entry, profile) in enumerate(zip(wanted, profiles, strict=True)):
        at = ("instances", number)
        counts[profile.name] += entry.count
        if counts[profile.name] > profile.max_instances:
            most = f"at most {profile.max_instances} {profile.name} fit on one {board.key}"
            yield LayoutFault(f"{most}, not {counts[profile.name]}", at)
        media += entry.count if profile.media else 0
        if profile.media and media > 1:
            yield LayoutFault("one instance of a GPU at most has the media engines (+me)", at)


def _sums(
    board: Board, mig: MigBoard, wanted: Sequence[DeclaredInstance], profiles: Sequence[GiProfile]
) -> Iterator[LayoutFault]:
    pairs = list(zip(wanted, profiles, strict=True))
    slices = sum(entry.count * profile.gpu_slices for entry, profile in pairs)
    size = sum(entry.count * profile.size for entry, profile in pairs)
    if slices > mig.gpu_slices:
        message = f"take {slices} compute slices in all, {board.key} has {mig.gpu_slices}"
        yield LayoutFault(message, ("instances",))
    elif size > mig.grid:
        message = f"take {size} memory slices in all, {board.key} has {mig.grid}"
        yield LayoutFault(message, ("instances",))


def _starts(
    wanted: Sequence[DeclaredInstance], profiles: Sequence[GiProfile]
) -> Iterator[LayoutFault]:
    placed: list[tuple[int, range]] = []
    for number, (entry, profile) in enumerate(zip(wanted, profiles, strict=True)):
        if entry.start is None:
            continue
        if entry.start not in profile.starts:
            places = either([str(each) for each in profile.starts])
            message = f"{profile.name} begins at {places}, not {entry.start}"
            yield LayoutFault(message, ("instances", number, "start"))
        placed.append((number, range(entry.start, entry.start + profile.size)))
    for (first, under), (second, other) in combinations(placed, 2):
        if set(under) & set(other):
            message = f"overlaps instances[{first}]"
            yield LayoutFault(message, ("instances", second, "start"))


def _compute(
    board: Board, entry: DeclaredInstance, profile: GiProfile, number: int
) -> Iterator[LayoutFault]:
    known = {each.name: each for each in profile.compute}
    at = ("instances", number, "compute")
    names = [catalog.name_today(board, name) for name in entry.compute]
    for index, name in enumerate(names):
        if name not in known:
            near = did_you_mean(name, known) or f"; known are {', '.join(known)}"
            message = f"{profile.name} holds no compute instance {shown(name)}{near}"
            yield LayoutFault(message, (*at, index))
            return
    for name, count in Counter(names).items():
        if count > known[name].max_instances:
            yield LayoutFault(
                f"at most {known[name].max_instances} {name} fit in {profile.name}", at
            )
    slices = sum(known[name].slices for name in names)
    if slices > profile.gpu_slices:
        yield LayoutFault(
            f"take {slices} compute slices, {profile.name} has {profile.gpu_slices}", at
        )


_PCI_ID = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}")
_ON_VFS = "sriov-vf"


def is_board_key(key: str) -> bool:
    """Whether it names a board: the catalogue's key, or the PCI id of one that it does not hold."""
    if catalog.board(key) is not None or catalog.sriov_board(key) is not None:
        return True
    return _PCI_ID.fullmatch(key) is not None and catalog.board_by_pci(key) is None


def faults_of_models(
    models: Sequence[str],
    devices: Sequence[str],
    layout: GpuLayout,
    wanted: Sequence[DeclaredInstance],
) -> Iterator[LayoutFault]:
    """What of the layout no GPU of these models could take; of a rule for all, no GPU at all.

    What ``devices`` are, and boards outside the catalogue can do, is known when it is planned.
    """
    for key in models:
        board, other = catalog.board(key), catalog.sriov_board(key)
        if board is not None:
            yield from faults_of_board(board, layout, wanted)
        elif other is not None:
            yield from _of_other(other, layout)
    if not models and not devices and wanted:
        yield from instance_faults_everywhere(wanted)


def faults_of_board(
    board: catalog.Board, layout: GpuLayout, wanted: Sequence[DeclaredInstance]
) -> Iterator[LayoutFault]:
    """What an NVIDIA board cannot do of a layout; ``wanted`` are its declared instances."""
    if layout.mig and not board.mig_capable:
        yield LayoutFault(f"{board.key} has no MIG", ("mig",) if not wanted else ("instances",))
        return
    if layout.mixed_size and not board.mixed_size:
        yield LayoutFault(f"{board.key} has no mixed-size mode", ("mixed_size",))
    if layout.vfs:
        yield from _vfs(board, layout.vfs)
    yield from instance_faults(board, wanted)


def _vfs(board: catalog.Board, count: int) -> Iterator[LayoutFault]:
    """NVIDIA's sriov-manage turns on all VFs of a board or none."""
    if board.host_mode is None:
        yield LayoutFault(f"{board.key} has no vGPUs: leave it out", ("vfs",))
    elif board.host_mode != _ON_VFS:
        yield LayoutFault(f"{board.key} creates its vGPUs without VFs: leave it out", ("vfs",))
    elif count != VFS_MAX and board.sriov_vfs_verified and count != board.sriov_vfs:
        yield LayoutFault(
            f"{board.key} has {board.sriov_vfs} VFs or none: write vfs: max", ("vfs",)
        )


def _of_other(board: catalog.SriovBoard, layout: GpuLayout) -> Iterator[LayoutFault]:
    for part in ("mig", "mixed_size", "instances", "scheduler", "scheduler_timing"):
        if getattr(layout, part):
            yield LayoutFault(f"{board.key} is not NVIDIA's: a layout sets its vfs alone", (part,))
    if layout.power_limit is not None or layout.locked_clocks is not None:
        yield LayoutFault(f"{board.key} is not NVIDIA's: a layout sets its vfs alone", ("power",))
    count = layout.vfs
    if not count or count == VFS_MAX:
        return
    if board.total_vfs is not None and count > board.total_vfs:
        yield LayoutFault(f"{board.key} has at most {board.total_vfs} VFs, not {count}", ("vfs",))
    elif board.allowed_vf_counts and count not in board.allowed_vf_counts:
        counts = either([str(each) for each in board.allowed_vf_counts])
        yield LayoutFault(f"{board.key} is split into {counts} VFs, not {count}", ("vfs",))
