"""Whatever we do ourselves is no drift: after any sequence of operations, and in the midst of any.

Every way of giving a VM a GPU, over the real helper, engine and ledger.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.property.test_sim_kill_points import WAYS, Way
from tests.simworld import SimWorld
from vgpumgr.engine.use_cases import Engine
from vgpumgr.model.operation import Transition
from vgpumgr.model.vm import VmSpec
from vgpumgr.model.vm_devices import DiskSpec, NicSpec
from vgpumgr.store import open_ledger

DISK, NIC = DiskSpec(size_bytes=1 << 30), NicSpec(network="default")


class Fleet:
    """A host, and what its user wants of it."""

    def __init__(self, folder: Path, way: Way) -> None:
        self.world = SimWorld(folder, way.host)
        self.layout = way.layout
        self.specs = {each.name: replace(each, disks=(DISK,), nics=(NIC,)) for each in way.vms}
        if way.layout is not None:
            self.world.cut(way.layout)
        self.ready()

    @property
    def engine(self) -> Engine:
        return self.world.engine

    def ready(self) -> None:
        """Its Fabric Manager, if it has one, takes a while after a boot."""
        while self.world.engine.refresh().facts["h1"].unknown:
            pass

    def some(self) -> list[str]:
        return [each.name for each in self.world.ledger.vms()][:1]

    def create(self) -> None:
        self.world.apply(*self.specs.values())

    def delete(self) -> None:
        self.world.delete(*self.some())

    def stop(self) -> None:
        self.engine.stop_vms(self.some(), force=True, timeout_s=5).raise_for_failure()

    def start(self) -> None:
        self.engine.start(self.some()).raise_for_failure()

    def restart(self) -> None:
        running = [each.name for each in self.world.ledger.vms() if each.running]
        self.engine.reboot(running, force=True).raise_for_failure()

    def change(self, **fields: object) -> None:
        """The file changes, and is applied; what runs may be stopped for it."""
        self.specs = {
            name: replace(each, **fields)  # type: ignore[arg-type]
            for name, each in self.specs.items()
        }
        self.engine.apply(self._known(), restart=True)[1].raise_for_failure()

    def grow(self) -> None:
        self.change(memory_mib=768, vcpus=2)

    def shrink(self) -> None:
        self.change(memory_mib=512, vcpus=1)

    def label(self) -> None:
        self.change(labels={"team": "blue"})

    def autostart(self) -> None:
        self.change(autostart=True)

    def host_reboots(self) -> None:
        """And its operator brings back what it lost: layouts, then every VM as it was."""
        wanted = self.world.ledger.vms()
        self.world.sim.inject("h1", ["reboot"])
        self.ready()
        if self.layout is not None:
            self.engine.layout_apply(None)[1].raise_for_failure()
        self.engine.start([each.name for each in wanted]).raise_for_failure()
        off = [each.name for each in wanted if not each.running]
        self.engine.stop_vms(off, force=True, timeout_s=5).raise_for_failure()

    def layout_again(self) -> None:
        if self.layout is not None:
            self.world.cut(self.layout)

    def _known(self) -> list[VmSpec]:
        known = {each.name for each in self.world.ledger.vms()}
        return [each for name, each in self.specs.items() if name in known]


DEEDS: tuple[Callable[[Fleet], None], ...] = (
    Fleet.create,
    Fleet.delete,
    Fleet.stop,
    Fleet.start,
    Fleet.restart,
    Fleet.grow,
    Fleet.shrink,
    Fleet.label,
    Fleet.autostart,
    Fleet.host_reboots,
    Fleet.layout_again,
)


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(way=st.sampled_from(sorted(WAYS)), deeds=st.lists(st.sampled_from(DEEDS), max_size=4))
def test_no_sequence_of_our_operations_is_drift(
    way: str, deeds: list[Callable[[Fleet], None]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder), WAYS[way])
        for deed in (Fleet.create, *deeds):
            deed(fleet)
            found = fleet.engine.drift()
            assert found.drifts == (), deed.__name__
            assert (found.not_read, found.skipped) == ((), ())
        fleet.world.close()


class Watched:
    """A ledger whose every durable step is followed by a look from elsewhere."""

    def __init__(self, ledger: object, look: Callable[[], None]) -> None:
        self._ledger = ledger
        self._look = look

    def __getattr__(self, name: str) -> object:
        return getattr(self._ledger, name)

    def record(self, *transitions: Transition) -> None:
        self._ledger.record(*transitions)  # type: ignore[attr-defined]
        self._look()


@pytest.mark.parametrize("way", ["mdev on the GPU", "instance for two", "partition"])
def test_an_operation_under_way_is_no_drift(way: str, tmp_path: Path) -> None:
    """Another process looks after every durable step of the one that works."""
    fleet = Fleet(tmp_path, WAYS[way])
    elsewhere = open_ledger(tmp_path / "ledger.db")
    looks: list[tuple[str, ...]] = []

    def look() -> None:
        found = replace(fleet.world.engine, ledger=elsewhere).drift()
        assert found.drifts == ()
        looks.append(found.skipped)

    fleet.world.engine = replace(
        fleet.world.engine,
        ledger=Watched(fleet.world.ledger, look),  # type: ignore[arg-type]
    )
    for deed in (Fleet.create, Fleet.stop, Fleet.start, Fleet.grow, Fleet.delete):
        deed(fleet)
    assert sum(bool(skipped) for skipped in looks) > 5
    elsewhere.close()
    fleet.world.close()
