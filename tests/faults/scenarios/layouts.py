"""GPUs partitioned: every part of a layout, up and down."""

from __future__ import annotations

from collections.abc import Iterator

from tests.faults import commands
from tests.faults.scenario import Place, Prepare, Scenario
from tests.simworld import host
from vgpumgr.model.layout import POWER_DEFAULT, VFS_MAX, GpuLayout, InstanceGoal, Scheduler
from vgpumgr.model.power import PowerBudget

_PLAIN, _VFS = GpuLayout(vfs=0), GpuLayout(vfs=VFS_MAX)
_MIG, _NO_MIG = GpuLayout(mig=True), GpuLayout(mig=False, vfs=0, instances=())


def _cut(*profiles: str) -> GpuLayout:
    wanted = tuple(InstanceGoal(profile=each) for each in profiles)
    return GpuLayout(mig=True, instances=wanted)


def _mixed(*, on: bool) -> GpuLayout:
    return GpuLayout(vfs=VFS_MAX, mixed_size=on)


def _scheduled(policy: Scheduler) -> GpuLayout:
    return GpuLayout(vfs=VFS_MAX, scheduler=policy)


_ALL = GpuLayout(
    mig=True,
    vfs=VFS_MAX,
    instances=(InstanceGoal(profile="3g.40gb"), InstanceGoal(profile="1g.10gb")),
)
_COMPUTE = GpuLayout(
    mig=True, instances=(InstanceGoal(profile="2g.20gb", compute=("1c.2g.20gb", "2g.20gb")[:1]),)
)
# part: board, one end, the other
PARTS: dict[str, tuple[str, GpuLayout, GpuLayout]] = {
    "mig_mode": ("A100-PCIE-80GB", _NO_MIG, _MIG),
    "vfs": ("L40S", _PLAIN, _VFS),
    "vfs of a plain board": ("FLEX-170", GpuLayout(vfs=0), GpuLayout(vfs=5)),
    "mixed_size": ("L40S", _mixed(on=False), _mixed(on=True)),
    "scheduler": (
        "L40S",
        _scheduled(Scheduler.BEST_EFFORT),
        _scheduled(Scheduler.EQUAL_SHARE),
    ),
    "gpu_instances": ("A100-PCIE-80GB", _cut(), _cut("3g.40gb", "1g.10gb")),
    "other gpu_instances": ("A100-PCIE-80GB", _cut("7g.80gb"), _cut("4g.40gb", "2g.20gb")),
    "compute instances": ("A100-PCIE-80GB", _cut(), _COMPUTE),
    "all parts": ("A100-PCIE-80GB", _NO_MIG, _ALL),
    "all parts of a vGPU board": (
        "L40S",
        GpuLayout(vfs=0, scheduler=Scheduler.BEST_EFFORT),
        GpuLayout(vfs=VFS_MAX, mixed_size=True, scheduler=Scheduler.EQUAL_SHARE),
    ),
    "power": (
        "A40",
        GpuLayout(power_limit=POWER_DEFAULT, locked_clocks=()),
        GpuLayout(power_limit=200, locked_clocks=(210, 1200)),
    ),
    "mdev-era board": ("A40", _PLAIN, _VFS),
}
_FIRST = {"all parts", "all parts of a vGPU board", "other gpu_instances"}


def _from(layout: GpuLayout) -> Prepare:
    def prepare(place: Place) -> None:
        place.enrol("h1")
        place.cut(layout, "h1")

    return prepare


def _of(part: str, board: str, low: GpuLayout, high: GpuLayout) -> Iterator[Scenario]:
    for way, begin, end in (("up", low, high), ("down", high, low)):
        yield Scenario(
            operation=f"layout {way}",
            part=part,
            hosts=(host(board),),
            command=commands.cut(end, "h1"),
            prepare=(_from(begin),),
        )


def _several() -> Scenario:
    """Four GPUs on two hosts are one operation."""
    return Scenario(
        operation="layout up",
        part="four GPUs on two hosts",
        hosts=(host("L40S", "L40S"), host("L40S", "L40S", name="h2")),
        command=commands.cut(_VFS, "h1", "h2"),
        prepare=(lambda place: place.enrol("h1", "h2"),),
        several=True,
    )


def _reset() -> Scenario:
    """An Xid asks for it; a GPU in GPU instances comes back as it was."""

    def in_trouble(place: Place) -> None:
        gpu = place.app.ledger.gpus()[0].facts.device
        place.inject("h1", "gpu", gpu, "xid", "140")
        place.engine.refresh()

    return Scenario(
        operation="gpu reset",
        part="MIG and VFs",
        hosts=(host("A100-PCIE-80GB"),),
        command=commands.reset_gpus,
        prepare=(_from(_ALL), in_trouble),
        ends=("again", "resume"),
    )


def _held(part: str, *, over: bool) -> Scenario:
    """A budget runs out and a GPU is capped; or it is calm again, and the cap is lifted."""

    def allow(place: Place, watts: int) -> None:
        budget = PowerBudget(name="pdu", watts=watts, hosts=("h1",))
        place.app.writable_ledger.set_power_budgets([budget])

    def busy(place: Place) -> None:
        device = place.app.ledger.gpus()[0].facts.device
        place.inject("h1", "gpu", device, "busy")
        allow(place, 200)

    def calm(place: Place) -> None:
        commands.watch_power(place.app)
        place.inject("h1", "gpu", place.app.ledger.gpus()[0].facts.device, "calm")
        allow(place, 2000)

    return Scenario(
        operation="power",
        part=part,
        hosts=(host("A40"),),
        command=commands.watch_power,
        prepare=(_from(_VFS), busy, *(() if over else (calm,))),
        ends=("again",),
        sure=False,
    )


SCENARIOS = (
    _held("capped", over=True),
    _held("lifted", over=False),
    _reset(),
    *(scenario for part, ends in PARTS.items() for scenario in _of(part, *ends)),
    _several(),
)
