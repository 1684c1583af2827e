"""A probe that follows a host: what it asks, what it takes from the last, and when it doubts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import pytest

from tests.unit.helper.host import CLAIM, GPU, UUID, done, gpu_host
from tests.unit.helper.nvml import FakeGpu, FakeNvml
from vgpumgr.helper.dispatch import handle
from vgpumgr.hosts.facts.host_facts import assemble
from vgpumgr.hosts.host_probe import HostProbe
from vgpumgr.hosts.libvirt_look import LONGEST_S, SETTLED_S
from vgpumgr.model.domain import DomainFacts, DomainState
from vgpumgr.model.errors import HostRefused, HostUnreachable, NotPermitted, OutcomeUnknown
from vgpumgr.model.host import HostFacts, StoragePool, UnknownPart

STATUS = "/run/libvirt/qemu/a.xml"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
PAGES = "/sys/devices/system/node/node0/hugepages/hugepages-2048kB"
CYCLE_S = 30.0


class Libvirt:
    """Lists of libvirt; ``asked`` counts how often all of them were read."""

    def __init__(self) -> None:
        self.asked = 0
        self.only: list[Collection[str] | None] = []
        self.nas = False
        self.changes = 0
        self.down = False
        self.state = DomainState.RUNNING
        self.available = 3

    @property
    def domains(self) -> Any:
        return self

    @property
    def storage(self) -> Any:
        return self

    def list(self) -> tuple[DomainFacts, ...]:
        if self.down:
            raise HostUnreachable("cannot connect to libvirt", why="no socket")
        self.asked += 1
        return (DomainFacts(name="a", uuid="u", state=self.state),)

    def pools(self, only: Collection[str] | None = None) -> tuple[StoragePool, ...]:
        self.only.append(only)
        names = ["p", *(["nas"] if only is None else [])] if self.nas else ["p"]
        return tuple(
            StoragePool(
                name=name,
                kind="dir",
                path=f"/{name}",
                capacity_bytes=9,
                available_bytes=self.available,
            )
            for name in names
        )

    def networks(self) -> tuple[str, ...]:
        return ("default",)

    def filters(self) -> tuple[str, ...]:
        return ("clean-traffic",)

    def versions(self) -> tuple[str, str]:
        return "9.0.0", "7.2.22"


class World:
    """The real helper over a host in memory, libvirt beside it, and a clock of our own."""

    def __init__(self) -> None:
        self.host = gpu_host()
        self.host.add_parent("mtty", "/sys/devices/virtual/mtty/mtty", {"mtty-1": 1}, 4)
        self.host.library = FakeNvml(FakeGpu(GPU, mig=None))
        self.host.files |= {
            "/sys/class/net/br0/bridge/bridge_id": "",
            BOOT_ID: "7d2f\n",
            "/proc/cpuinfo": "",
            "/proc/sys/kernel/hostname": "h1\n",
            "/proc/sys/kernel/osrelease": "6.1.0\n",
            "/proc/meminfo": "MemTotal: 65536000 kB\n",
            "/sys/devices/system/cpu/online": "0-3\n",
            "/sys/devices/system/node/node0/cpulist": "0-3\n",
            "/sys/devices/system/node/node0/meminfo": "MemTotal: 65536000 kB\n",
            f"{PAGES}/nr_hugepages": "4\n",
            f"{PAGES}/free_hugepages": "3\n",
            "/run/libvirtd.pid": "812\n",
            "/proc/812/stat": f"812 (libvirtd) S {'0 ' * 18}4711 0\n",
            STATUS: "",
        }
        self.host.programs["qemu-system-x86_64 --version"] = (0, "QEMU emulator version 7.2.22\n")
        self.libvirt = Libvirt()
        self.now = 1000.0
        self.calls: list[tuple[str, Mapping[str, object]]] = []
        self.answers: list[Callable[[dict[str, Any]], dict[str, Any]]] = []
        self.probe = HostProbe("h1", self, lambda: self.libvirt, lambda: self.now)

    def call(self, verb: str, args: Mapping[str, object]) -> dict[str, Any]:
        """The helper's answer, or what the next of ``answers`` makes of it."""
        self.calls.append((verb, args))
        answer = handle({"verb": verb, "args": args}, self.host)
        assert answer["ok"], answer
        return self.answers.pop(0)(answer["result"]) if self.answers else answer["result"]

    def write(self, path: str = STATUS) -> None:
        """libvirt writes one of its files."""
        number = self.host.stamps.get(path, (1, 1, 1, 1))[0] + 1
        self.host.stamps[path] = (number, number, number, 1)

    def cycle(self) -> HostFacts:
        """The probe of the next cycle, which must be what a fresh one shows."""
        self.now += CYCLE_S
        facts = self.probe.read()
        calls, answers, asked = list(self.calls), self.answers, self.libvirt.asked
        self.answers = []
        assert facts == HostProbe("h1", self, lambda: self.libvirt, lambda: self.now).read()
        self.calls, self.answers, self.libvirt.asked = calls, answers, asked
        return facts

    def followed(self) -> HostFacts:
        """The facts once everything has stood for a while."""
        for _ in range(3):
            facts = self.cycle()
        self.calls.clear()
        self.libvirt.asked = 0
        return facts


@pytest.fixture
def world() -> World:
    return World()


def test_an_unchanged_host_is_one_small_call_and_the_same_object(world: World) -> None:
    facts = world.followed()
    answered: list[dict[str, Any]] = []
    world.answers = [lambda told: answered.append(told) or told]  # type: ignore[func-returns-value]
    assert world.cycle() is facts
    assert ([verb for verb, _ in world.calls], world.libvirt.asked) == (["probe"], 0)
    assert answered[0].keys() == {"digests", "same"}


def test_a_whole_answer_is_what_a_helper_without_digests_gives(world: World) -> None:
    whole = done(world.host, "probe")
    assert world.cycle().gpus == assemble("h1", whole).gpus


def test_what_has_changed_is_read_and_the_rest_is_kept(world: World) -> None:
    facts = world.followed()
    world.host.files[f"{PAGES}/free_hugepages"] = "2\n"
    changed = world.cycle()
    assert changed.numa[0].hugepages_free == {2048: 2}
    assert changed.gpus is facts.gpus and changed.domains is facts.domains
    done(world.host, "mdev_create", claim=CLAIM, uuid=UUID, type="mtty-1", parent="mtty")
    assert [each.unit for each in world.cycle().claims] == [f"mdev-{UUID}"]
    assert world.libvirt.asked == 0


def test_libvirt_is_asked_when_its_files_change_and_once_more_when_they_have_settled(
    world: World,
) -> None:
    world.followed()
    world.libvirt.state = DomainState.SHUTOFF
    world.write()
    assert world.cycle().domains[0].state is DomainState.SHUTOFF
    world.libvirt.state = DomainState.CRASHED  # within the same tick of the host's clock
    assert world.cycle().domains[0].state is DomainState.CRASHED
    facts = world.cycle()
    assert world.libvirt.asked == 2 and world.cycle() is facts


def test_two_probes_within_a_moment_do_not_settle_anything(world: World) -> None:
    world.followed()
    world.write()
    for _ in range(4):
        world.now += SETTLED_S / 10 - CYCLE_S
        world.cycle()
    assert world.libvirt.asked == 4


def test_after_ten_minutes_libvirt_is_asked_in_any_case(world: World) -> None:
    facts = world.followed()
    world.libvirt.available = 2  # a volume was made: no file tells
    world.now += LONGEST_S - CYCLE_S - 1
    assert world.probe.read() is facts
    world.now += CYCLE_S
    assert world.probe.read().pools[0].available_bytes == 2


def test_a_change_of_our_own_has_libvirt_asked(world: World) -> None:
    world.followed()
    world.libvirt.changes += 1
    world.libvirt.available = 2
    assert world.cycle().pools[0].available_bytes == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda world: world.host.files.update({BOOT_ID: "8e3a\n"}),
        lambda world: world.host.files.update({"/proc/812/stat": f"812 (l) S {'0 ' * 18}9 0\n"}),
        lambda world: world.host.files.update({"/etc/mdevctl.d/notes.txt": ""}),
        lambda world: world.host.files.pop("/run/libvirtd.pid"),
        lambda world: world.host.unreadable.update({"/etc/libvirt/qemu": 13}),
        lambda world: world.host.files.pop(STATUS),
        lambda world: world.host.files.update({"/etc/libvirt/storage/p.xml": ""}),
    ],
    ids=["reboot", "restart", "unread", "no-daemon", "not-permitted", "removed", "defined"],
)
def test_what_makes_an_earlier_look_doubtful(
    world: World, change: Callable[[World], object]
) -> None:
    world.followed()
    change(world)
    world.libvirt.state = DomainState.PAUSED
    assert world.cycle().domains[0].state is DomainState.PAUSED


def test_without_a_fingerprint_libvirt_is_asked_each_time(world: World) -> None:
    del world.host.files["/run/libvirtd.pid"]
    facts = world.followed()
    again = world.cycle()
    assert again == facts and again is not facts, "what libvirt does not list may have changed"
    world.cycle()
    assert world.libvirt.asked == 2


def test_libvirt_that_was_down_is_asked_until_it_answers(world: World) -> None:
    world.followed()
    world.libvirt.down = True
    world.write()
    facts = world.cycle()
    assert facts.unknown == (UnknownPart(part="libvirt", why="no socket"),)
    assert world.cycle() is facts
    world.libvirt.down = False
    assert world.cycle().unknown == ()


def test_after_an_error_everything_is_asked_for(world: World) -> None:
    world.followed()

    def cut(_told: dict[str, Any]) -> dict[str, Any]:
        raise HostUnreachable("h1 is gone")

    world.answers = [cut]
    with pytest.raises(HostUnreachable):
        world.cycle()
    world.cycle()
    assert world.calls[-1] == ("probe", {}) and world.libvirt.asked == 1


LIES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "not presented": lambda told: {**told, "same": ["libvirt"]},
    "unknown name": lambda told: {**told, "same": ["sundry"]},
    "another digest": lambda told: {**told, "digests": {**told["digests"], "gpus": "0" * 32}},
    "no digest": lambda told: {**told, "digests": {}},
    "no digests but numbers": lambda told: {**told, "digests": {"gpus": 7}},
    "a long digest": lambda told: {**told, "digests": {"gpus": "0" * 5000}},
    "no list": lambda told: {**told, "same": "gpus"},
    "a crowd": lambda told: {**told, "same": ["gpus"] * 100},
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_what_is_invalid_is_asked_for_once_more_whole_then_refused(
    world: World, lie: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    facts = world.followed()
    world.answers = [lie]
    assert world.cycle() == facts
    assert [bool(args) for _, args in world.calls] == [True, False]
    nothing_known = {"same": ["gpus"], "digests": {"gpus": "0" * 32}}
    world.answers = [lie, lambda told: {**told, **nothing_known}]
    with pytest.raises(OutcomeUnknown, match="same"):
        world.cycle()


def test_a_helper_without_digests_is_never_presented_any(world: World) -> None:
    def old(told: dict[str, Any]) -> dict[str, Any]:
        return {name: told[name] for name in told if name not in {"digests", "same"}}

    world.answers = [old] * 5
    facts = world.cycle()
    assert world.cycle() == facts
    assert [args for _, args in world.calls] == [{}, {}] and world.libvirt.asked == 2


def test_a_helper_that_was_put_back_to_an_older_one_answers_whole(world: World) -> None:
    facts = world.followed()

    def refuse(_told: dict[str, Any]) -> dict[str, Any]:
        raise HostRefused("argument 'known' is not one this verb takes")

    world.answers = [refuse]
    assert world.cycle() is facts


def test_kvm_is_tried_once_for_one_kernel(world: World) -> None:
    world.host.files["/dev/kvm"] = ""
    world.host.is_root = False
    facts = world.followed()
    assert facts.kvm is False and facts.unknown == ()
    assert world.cycle() is facts
    assert [verb for verb, _ in world.calls] == ["probe"]


def test_kvm_that_could_not_be_tried_is_tried_again(world: World) -> None:
    world.host.files["/dev/kvm"] = ""

    def refuse(_told: dict[str, Any]) -> dict[str, Any]:
        raise NotPermitted("no sudo rule")

    world.answers = [lambda told: told, refuse]
    assert [each.part for each in world.probe.read().unknown] == ["kvm"]
    assert world.probe.read().unknown == ()


def test_a_definition_by_another_hand_is_another_object_though_the_lists_are_equal(
    world: World,
) -> None:
    facts = world.followed()
    world.write()
    changed = world.cycle()
    assert changed == facts and changed is not facts


MOUNTED = "36 35 0:43 / /nas rw - nfs4 nas:/vms rw\n"
NAS = """<pool type='netfs'><name>nas</name><source><host name='nas'/><dir path='/vms'/></source>
  <target><path>/nas</path></target></pool>"""
LOCAL = "<pool type='dir'><name>p</name><target><path>/p</path></target></pool>"


def test_a_stalled_pool_is_not_asked_and_the_others_are() -> None:
    world = World()
    world.libvirt.nas = True
    world.host.files |= {
        "/etc/libvirt/storage/nas.xml": NAS,
        "/etc/libvirt/storage/p.xml": LOCAL,
        "/proc/self/mountinfo": MOUNTED,
    }
    world.host.programs["stat"] = (0, "")
    assert [pool.active for pool in world.probe.read().pools] == [True, True]
    world.host.programs["stat"] = (124, "")
    facts = world.probe.read()
    assert facts.stalled_pools == world.probe.stalled == ("nas",)
    assert {pool.name: pool.active for pool in facts.pools} == {"p": True, "nas": False}
    assert facts.unknown == ()
    assert world.libvirt.only == [None, ["p"]]
    world.host.programs["stat"] = (0, "")
    assert [pool.active for pool in world.probe.read().pools] == [True, True]
    assert world.probe.stalled == ()
