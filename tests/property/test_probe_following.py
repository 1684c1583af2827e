"""Whatever happens on a host: a probe that follows it shows what a fresh, whole one shows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from unittest import mock

import pytest

from vgpumgr import domainxml
from vgpumgr.helper.verbs import probe
from vgpumgr.hosts.host_probe import HostProbe
from vgpumgr.hosts.libvirt_look import LONGEST_S
from vgpumgr.hosts.reached_host import ReachedHost
from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.host import HostFacts, HostRecord
from vgpumgr.model.sim_fleet import SimBoard, SimFleet, SimHost
from vgpumgr.sim.in_process import InProcessHosts

STEPS = 60
NAMES = ("a", "b")
UUIDS = tuple(f"4b20d080-1b54-4048-85b3-a6a62d165c0{number}" for number in range(4))
RECORD = HostRecord(name="h1", address="sim://h1")
HOST = SimHost(
    name="h1",
    boards=(SimBoard(board="T4", count=2), SimBoard(board="A100-PCIE-40GB")),
    hugepages_1gib=16,
    pools=("default", "nas"),
    shared_pools=("nas",),
)
BESIDE = SimHost(name="h2", pools=("default", "nas"), shared_pools=("nas",))


class Scene:
    """A host, two fleets that change it behind each other's back, and who follows it."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.hosts = InProcessHosts(
            SimFleet(name="f", hosts=(HOST, BESIDE)), identity=self._identity
        )
        self.sim = self.hosts.fleet.host("h1")
        self.epoch = 1
        self.now = 0.0
        self.ours = self._reached()
        self.foreign = self._reached()
        self.elsewhere = self.hosts.open(HostRecord(name="h2", address="sim://h2"))
        self.followers = [self._follower() for _ in range(3)]
        self.shown: list[HostFacts | None] = [None] * len(self.followers)
        self.volumes = 0
        self.gpus = tuple(each.device for each in self.fresh().gpus)

    def _identity(self) -> tuple[str, int]:
        return "fleet-1", self.epoch

    def _reached(self) -> ReachedHost:
        found = self.hosts.seen_by(self._identity).open(RECORD)
        assert isinstance(found, ReachedHost)
        return found

    def _follower(self) -> HostProbe:
        return HostProbe("h1", self.ours.helper, self.ours._libvirt, lambda: self.now)

    def fresh(self) -> HostFacts:
        return self._reached().probe()

    def hear(self, number: int) -> None:
        """One of the followers looks: twice, since nothing happens between."""
        self.now += self.chance.choice((0.1, 3.0, 30.0))
        try:
            fresh = self.fresh()
        except VgpumgrError as error:
            with pytest.raises(type(error)):
                self.followers[number].read()
            self.shown[number] = None
            return
        facts = self.followers[number].read()
        assert (facts, facts.epochs) == (fresh, fresh.epochs)
        assert self.followers[number].read() is facts
        self.shown[number] = facts

    def kept_is_fresh(self) -> None:
        """What the simulated host keeps of its answer is what it would read."""
        if self.sim.faults.lies.of("probe"):
            return
        request = json.dumps({"verb": "probe", "args": {}})
        kept = self.sim.helper(request)
        self.sim.opened()
        assert kept == self.sim.helper(request)

    def claim(self, vm: str) -> dict[str, object]:
        return {"allocation": f"alloc-{vm}", "generation": 1, "vm": vm}


def make_mdev(scene: Scene) -> None:
    uuid = scene.chance.choice(UUIDS)
    kind = scene.chance.choice(("nvidia-222", "nvidia-232", "nvidia-230"))
    parent = scene.chance.choice(scene.gpus[:2])
    claim = scene.claim(uuid[-2:])
    wanted = {"parent": parent, "type": kind, "uuid": uuid, "claim": claim}
    scene.ours.helper.call("mdev_create", wanted)


def remove_mdev(scene: Scene) -> None:
    uuid = scene.chance.choice(UUIDS)
    scene.ours.helper.call("mdev_remove", {"uuid": uuid, "claim": scene.claim(uuid[-2:])})


def remove_mdev_by_hand(scene: Scene) -> None:
    scene.hosts.fleet.inject("h1", ["remove-mdev", scene.chance.choice(UUIDS)])


def define(scene: Scene) -> None:
    memory = scene.chance.choice((512, 1024))
    name = scene.chance.choice(NAMES)
    pages = "<memoryBacking><hugepages><page size='1' unit='GiB'/></hugepages></memoryBacking>"
    backing = scene.chance.choice(("", pages if memory == 1024 else ""))
    scene.foreign.domains.define(
        f"<domain type='kvm'><name>{name}</name><uuid>{UUIDS[NAMES.index(name)]}</uuid>"
        f"<memory unit='MiB'>{memory}</memory>{backing}<vcpu>1</vcpu>"
        "<os><type arch='x86_64' machine='q35'>hvm</type></os></domain>"
    )


def domain(method: str, *more: object) -> Callable[[Scene], None]:
    def act(scene: Scene) -> None:
        hand = scene.chance.choice((scene.ours, scene.foreign))
        getattr(hand.domains, method)(scene.chance.choice(NAMES), *more)

    return act


def volume(scene: Scene, pool: str = "default") -> str:
    scene.volumes += 1
    name = f"v{scene.volumes}.qcow2"
    plan = VolumePlan(pool=pool, name=name, capacity_bytes=1 << 30, format="qcow2")
    return domainxml.volume(plan)


def make_volume(scene: Scene) -> None:
    scene.ours.storage.create("default", volume(scene))


def make_volume_by_hand(scene: Scene) -> None:
    scene.foreign.storage.create("default", volume(scene))


def grow_volume_by_hand(scene: Scene) -> None:
    """Of it no file tells."""
    data = bytes(scene.chance.randrange(1, 1 << 16))
    scene.foreign.storage.upload("default", f"v{scene.volumes}.qcow2", data)
    scene.now += LONGEST_S


def make_shared_volume_elsewhere(scene: Scene) -> None:
    scene.elsewhere.storage.create("nas", volume(scene, "nas"))


def inject(*words: str) -> Callable[[Scene], None]:
    return lambda scene: scene.hosts.fleet.inject("h1", words)


def gpu(*words: str) -> Callable[[Scene], None]:
    return lambda scene: scene.hosts.fleet.inject("h1", ["gpu", scene.gpus[0], *words])


def outage(gone: str, back: str) -> Callable[[Scene], None]:
    """Two of three followers notice."""

    def act(scene: Scene) -> None:
        scene.hosts.fleet.inject("h1", [gone])
        scene.hear(0)
        scene.hear(1)
        scene.hosts.fleet.inject("h1", [back])

    return act


def take_over(scene: Scene) -> None:
    scene.epoch += 1
    scene.ours.helper.call("fleet_join", {})


def set_layout(scene: Scene) -> None:
    enabled = scene.chance.choice((True, False))
    scene.ours.helper.call("mig_mode_set", {"gpu": scene.gpus[2], "enabled": enabled})


def wait(scene: Scene) -> None:
    """The host's own time goes on: what was ending has ended."""
    scene.sim.opened().kernel.clock.wait(5.0)


CHANGES: tuple[Callable[[Scene], None], ...] = (
    *(make_mdev,) * 4,
    *(remove_mdev, remove_mdev_by_hand),
    *(define,) * 4,
    *(domain("start"),) * 6,
    *(domain("shutdown"), domain("destroy"), domain("undefine"), inject("destroy", "a")),
    *(domain("set_autostart", True), domain("set_autostart", False)),
    *(make_volume, make_volume_by_hand, grow_volume_by_hand, make_shared_volume_elsewhere),
    *(take_over, set_layout, wait),
    *(inject("reboot"), outage("off", "on"), outage("unreachable", "clear")),
    *(gpu("lost"), gpu("remap-failed"), gpu("client", "X"), inject("setup", "iommu-off")),
    *(inject("lie", "probe", "result.hostname", '"other"'), inject("clear"), inject("clear")),
    *(inject("lie", "probe", "result.nvml", "null"), inject("clear")),
)


@pytest.fixture
def scene(seed: int) -> Iterator[Scene]:
    made = Scene(Random(seed))
    yield made
    made.hosts.close()


@pytest.mark.parametrize("seed", range(6))
def test_a_followed_host_is_as_a_fresh_look_at_it(scene: Scene) -> None:
    done = set()
    for _ in range(STEPS):
        change = scene.chance.choice(CHANGES)
        with suppress(VgpumgrError):
            change(scene)
            done.add(change)
        for number in range(len(scene.followers)):
            if scene.chance.random() < 0.5:
                scene.hear(number)
        scene.kept_is_fresh()
    assert len(done) > len(set(CHANGES)) // 2, "most of it happens"


@pytest.mark.parametrize("seed", [0])
def test_another_helper_is_asked_for_what_it_tells(scene: Scene) -> None:
    scene.hear(0)
    with mock.patch.object(probe, "VERSION", "99"):
        scene.sim.opened()
        scene.hear(0)
        shown = scene.shown[0]
        assert shown is not None and shown.versions.helper == "99"
    scene.sim.opened()
    scene.hear(0)
