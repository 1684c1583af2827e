"""Any sequence of faults, commands and cycles of `serve`: no GPU is reset of which a VM holds a
part, and no VM is placed on a board whose own state says that it should take none.

What should take none is judged by the simulated hardware, with no code of the product's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.simworld import NEW, SimWorld, host, vm
from vgpumgr.engine.controller.controller import Controller
from vgpumgr.engine.controller.cycle_schedule import ProbePauses
from vgpumgr.engine.controller.cycle_threads import SerialCycleRunner
from vgpumgr.health.health_policy import HealthMode, HealthPolicy, parse_actions
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.gpu import GpuState
from vgpumgr.model.layout import VFS_MAX, GpuLayout
from vgpumgr.sim.injection import inject
from vgpumgr.sim.nvidia.nvidia_gpu import NvidiaGpu

HOSTS = ("h1", "h2")
PROFILE = "A100-20C"
DEVICES = ("0000:41:00.0", "0000:43:00.0")
FAULTS = (
    *("xid 13", "xid 48", "xid 63", "xid 79", "xid 92", "xid 94", "xid 119", "xid 140", "xid 167"),
    *("ecc", "lost", "hidden", "remap-failed", "remap-pending", "sram", "hot", "width 8"),
    *("errors 3", "recovery 1", "recovery 2", "recovery 3", "recovery 4", "client dcgm"),
    *("fail reset 1", "fail create 1"),
)
ASKS_FOR_MORE_THAN_A_LOOK = frozenset({1, 2, 4, 6, 7})

place = st.sampled_from([(name, device) for name in HOSTS for device in DEVICES])
move = st.one_of(
    st.tuples(st.just("fault"), place, st.sampled_from(FAULTS)),
    st.tuples(st.just("create"), st.integers(0, 5)),
    st.tuples(st.just("delete"), st.integers(0, 5)),
    st.tuples(st.just("stop"), st.integers(0, 5)),
    st.tuples(st.just("serve")),
    st.tuples(st.just("look")),
    st.tuples(st.just("reset"), place),
    st.tuples(st.just("lift"), place),
    st.tuples(st.just("reboot"), st.sampled_from(HOSTS)),
    st.tuples(st.just("clear"), st.sampled_from(HOSTS)),
)
POLICY = (
    "reset=drain+reset reset-when-idle=reset replace=evacuate lost=evacuate restart-host=drain "
    "unread=drain check=tell"
)


class Judged:
    """A world with a controller; every reset and every new allocation is judged as it happens."""

    def __init__(self, folder: Path) -> None:
        boards = ("A100-PCIE-40GB", "A100-PCIE-40GB")
        self.world = SimWorld(folder, *(host(*boards, versions=NEW, name=name) for name in HOSTS))
        for name in HOSTS:
            self.world.cut(GpuLayout(vfs=VFS_MAX), name)
        self.resets = 0

    def controller(self) -> Controller:
        context = self.world.engine
        policy = HealthPolicy(mode=HealthMode.ACT, actions=parse_actions(POLICY))
        runner: SerialCycleRunner = SerialCycleRunner(context.clock)
        return Controller(context, runner, ProbePauses(30.0), emit=lambda _: None, health=policy)

    def should_take_none(self, name: str, device: str) -> str:
        """By the hardware alone."""
        health = self.world.sim.host(name).opened().kernel.nvidia[device].health
        found = {
            "lost": health.lost,
            "hidden": health.hidden,
            "remap failed": health.rows.failure,
            "remap pending": health.rows.pending,
            "SRAM": health.sram_exceeded,
            f"recovery {health.recovery}": int(health.recovery) in ASKS_FOR_MORE_THAN_A_LOOK,
        }
        return ", ".join(word for word, there in found.items() if there)

    def holders(self, gpu: NvidiaGpu) -> list[str]:
        """VMs that the ledger gives a part of the GPU, running or not."""
        for name in HOSTS:
            if self.world.sim.host(name).opened().kernel.nvidia.get(gpu.address) is gpu:
                ids = {
                    each.id
                    for each in self.world.ledger.gpus(name)
                    if each.facts.device == gpu.address
                }
                return [each.vm for each in self.world.ledger.allocations() if each.gpu in ids]
        return []

    @contextmanager
    def watched(self) -> Iterator[None]:
        real = NvidiaGpu.reset

        def reset(gpu: NvidiaGpu) -> None:
            self.resets += 1
            held = self.holders(gpu)
            assert not held, f"{gpu.address} is reset, and {held} hold parts of it"
            assert not gpu.vgpus, f"{gpu.address} is reset under vGPUs"
            real(gpu)

        with mock.patch.object(NvidiaGpu, "reset", reset):
            yield

    @contextmanager
    def placing(self) -> Iterator[None]:
        """What is held afterwards and was not before lies on boards that were well before."""
        world = self.world
        ill = {
            (gpu.host, gpu.facts.device): self.should_take_none(gpu.host, gpu.facts.device)
            for gpu in world.ledger.gpus()
        }
        before = {each.id for each in world.ledger.allocations()}
        yield
        known = {gpu.id: (gpu.host, gpu.facts.device) for gpu in world.ledger.gpus()}
        for each in world.ledger.allocations():
            if each.id not in before:
                why = ill[known[each.gpu]]
                assert not why, f"{each.vm} was placed on {known[each.gpu]}: {why}"


def play(judged: Judged, moves: list[tuple[object, ...]]) -> None:
    world = judged.world
    serve = judged.controller()

    def gpu_id(at: Any) -> str:
        name, device = at
        found = world.ledger.gpus(name)
        return next(each.id for each in found if each.facts.device == device)

    def fault(at: Any, words: object) -> None:
        name, device = at
        inject(world.sim.host(name), ["gpu", device, *str(words).split()])

    acts: dict[object, Callable[..., object]] = {
        "fault": fault,
        "create": lambda n: world.engine.apply([vm(f"v{n}", PROFILE)]),
        "delete": lambda n: world.engine.delete([f"v{n}"], keep_disks=False, force=True),
        "stop": lambda n: world.engine.stop_vms([f"v{n}"], force=True, timeout_s=1.0),
        "serve": lambda: serve.once(),
        "look": lambda: world.engine.refresh(),
        "reset": lambda at: world.engine.reset_gpu(gpu_id(at)),
        "lift": lambda at: world.engine.lift(gpu_id(at)),
        "reboot": lambda name: inject(world.sim.host(name), ["reboot"]),
        "clear": lambda name: inject(world.sim.host(name), ["clear"]),
    }
    for verb, *given_ in moves:
        with judged.placing(), suppress(VgpumgrError):
            acts[verb](*given_)


def check_end(judged: Judged) -> None:
    """Without any fault, after a boot and a lift, everything takes VMs again."""
    world = judged.world
    for name in HOSTS:
        inject(world.sim.host(name), ["clear"])
    for _ in range(3):
        judged.controller().once()
    for gpu in world.ledger.gpus():
        with suppress(VgpumgrError):
            world.engine.lift(gpu.id)
    for gpu in world.ledger.gpus():
        assert gpu.state is GpuState.HEALTHY, gpu
        assert gpu.health.state.takes_vms, gpu.health


def run(moves: list[tuple[object, ...]]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        judged = Judged(Path(folder))
        try:
            with judged.watched():
                play(judged, moves)
                check_end(judged)
            return judged.resets
        finally:
            judged.world.close()


SOME = settings(max_examples=12, suppress_health_check=list(HealthCheck))
MANY = settings(max_examples=100, suppress_health_check=list(HealthCheck))


@pytest.mark.thorough
@given(st.lists(move, min_size=5, max_size=20))
@SOME
def test_no_used_gpu_is_reset_and_no_vm_comes_to_an_ill_board(
    moves: list[tuple[object, ...]],
) -> None:
    run(moves)


@pytest.mark.release
@given(st.lists(move, min_size=5, max_size=60))
@MANY
def test_the_same_for_long(moves: list[tuple[object, ...]]) -> None:
    run(moves)


def test_the_judge_sees_resets_and_ill_boards() -> None:
    """A game whose end is known: a fault, a reset, and a board that takes nothing."""
    first = ("h1", DEVICES[0])
    assert run([("fault", first, "xid 140"), ("serve",), ("look",)]) >= 1
    with tempfile.TemporaryDirectory() as folder:
        judged = Judged(Path(folder))
        inject(judged.world.sim.host("h1"), ["gpu", DEVICES[0], "remap-failed"])
        assert judged.should_take_none(*first) == "remap failed"
        judged.world.close()
