"""The checker sees each kind of violation, none where there is none, and shares nothing with us."""

from __future__ import annotations

import ast
import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.checker import store
from tests.checker.check import check, check_any_time
from tests.checker.operations import needs_operator
from tests.checker.seen import Seen
from tests.faults.scenario import Place
from tests.faults.simulator import Watch, dump_of
from tests.simworld import NEW, OLD, host, vm
from vgpumgr.model.layout import VFS_MAX, GpuLayout, InstanceGoal
from vgpumgr.model.vm import Terms
from vgpumgr.model.vm_devices import DiskSpec

HERE = Path(__file__).parent
Dump = dict[str, Any]


def dump(place: Place, url: str) -> Dump:
    fleet = place.hosts.fleet
    plain = {"hosts": dump_of(fleet), "watch": Watch(fleet).plain, "store": store.read(url)}
    return json.loads(json.dumps(plain))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dump]:
    """Two VMs on two hosts: an mdev with a disk, in the queue, and a vGPU in a GPU instance."""
    url = str(tmp_path_factory.mktemp("checker") / "ledger.sqlite")
    place = Place(url, (host("T4", versions=OLD), host("A100-PCIE-80GB", versions=NEW, name="h2")))
    place.enrol("h1", "h2")
    place.cut(GpuLayout(mig=True, vfs=VFS_MAX, instances=(InstanceGoal(profile="1g.10gb"),)), "h2")
    desk = vm("desk", "T4-4Q", disks=(DiskSpec(size_bytes=1 << 20),), queue=Terms())
    place.apply(desk, vm("mig", "3g.40gb"))
    place.close()
    yield dump(place, url)
    place.hosts.close()


def test_a_sound_fleet_has_no_violation(sound: Dump) -> None:
    assert check(sound, sound) == []
    assert check_any_time(sound) == []


def row(found: Dump, table: str, **wanted: object) -> dict[str, Any]:
    rows = found["store"][table]
    return next(r for r in rows if all(r[key] == value for key, value in wanted.items()))


def domain(found: Dump, name: str = "desk") -> dict[str, Any]:
    return next(d for h in found["hosts"].values() for d in h["domains"] if d["name"] == name)


def probe(found: Dump, name: str = "h1") -> dict[str, Any]:
    return found["hosts"][name]["probe"]


def twice_taken(found: Dump) -> None:
    other = row(found, "allocation", vm="mig")
    mine = row(found, "allocation", vm="desk")
    other.update(gpu=mine["gpu"], slots=mine["slots"])


def other_owner(found: Dump) -> None:
    probe(found)["claims"][0]["vm"] = "somebody"


def leaked_nic(found: Dump) -> None:
    claim = copy.deepcopy(probe(found)["claims"][0])
    claim["wanted"] = {"kind": "nic", "address": "0000:11:10.0"}
    probe(found)["claims"].append({**claim, "unit": "pci-0000:11:10.0"})


def unclaimed_nic(found: Dump) -> None:
    row(found, "vm", name="desk")["nic_functions"] = '["0000:11:10.0"]'


def nic_given_twice(found: Dump) -> None:
    for name in ("desk", "mig"):
        row(found, "vm", name=name).update(host="h1", nic_functions='["0000:11:10.0"]')


def old_claim(found: Dump) -> None:
    probe(found)["claims"][0]["generation"] += 1


def no_claim(found: Dump) -> None:
    probe(found)["claims"].clear()


def no_mdev(found: Dump) -> None:
    probe(found)["mdevs"].clear()


def leaked_mdev(found: Dump) -> None:
    mdevs = probe(found)["mdevs"]
    mdevs.append({**mdevs[0], "uuid": "0e0f0a0b-0000-4000-8000-00000000000f"})


def leaked_vgpu(found: Dump) -> None:
    [gpu] = probe(found, "h2")["devices"]
    next(vf for vf in gpu["sriov"]["vfs"] if not vf["vgpu"]["type"])["vgpu"]["type"] = 1


def leaked_instance(found: Dump) -> None:
    [gpu] = probe(found, "h2")["nvml"]["gpus"]
    first = gpu["mig"]["instances"][0]
    gpu["mig"]["instances"].append({**first, "start": 6, "id": 99})


def leaked_volume(found: Dump) -> None:
    vm_id = row(found, "vm", name="desk")["id"]
    found["hosts"]["h2"]["volumes"].append(["default", f"desk-{vm_id[:8]}-0.qcow2"])


def leaked_unit(found: Dump) -> None:
    found["store"]["unit"][0]["allocation_id"] = "nobody"


def unsettled(found: Dump) -> None:
    found["store"]["layout"][0]["settled"] = 0


def open_operation(found: Dump) -> None:
    found["store"]["operation"][-1].update(state="running", ended_at=None)


def open_step(found: Dump) -> None:
    found["store"]["step"][-1]["state"] = "intent"


def lost_vm(found: Dump) -> None:
    found["hosts"]["h1"]["domains"].remove(domain(found))


def vm_elsewhere(found: Dump) -> None:
    found["hosts"]["h2"]["domains"].append(domain(found))


def vm_off(found: Dump) -> None:
    domain(found)["state"] = "shutoff"


def seen_twice(found: Dump) -> None:
    found["watch"]["dual_running_s"] = 0.5


def stranger_gone(found: Dump) -> None:
    found["hosts"]["h1"]["domains"].remove(domain(found, "stranger"))


def image_gone(found: Dump) -> None:
    found["hosts"]["h1"]["volumes"].remove(["default", "debian-12.qcow2"])


def waits_with_its_gpu(found: Dump) -> None:
    row(found, "queue", name="desk")["state"] = "waiting"


def runs_without_its_vm(found: Dump) -> None:
    row(found, "queue", name="desk")["vm_id"] = "nobody"


def ready_without_its_vm(found: Dump) -> None:
    found["store"]["desktop"].append(
        {
            "id": "d-1",
            "name": "cad-01",
            "state": "ready",
            "vm_id": "nobody",
            "session": None,
            "closed_at": None,
        }
    )


def record_gone(found: Dump) -> None:
    found["store"]["audit"].remove(row(found, "audit", event="vm.active", vm="desk"))


BROKEN: dict[str, tuple[Callable[[Dump], None], str]] = {
    f"{rule} {each.__name__}": (each, rule)
    for each, rule in (
        (twice_taken, "I1"),
        (nic_given_twice, "I1"),
        (other_owner, "I2"),
        (old_claim, "I2"),
        (unclaimed_nic, "I2"),
        (no_claim, "I2"),
        (no_mdev, "I2"),
        (leaked_mdev, "I3"),
        (leaked_nic, "I3"),
        (leaked_vgpu, "I3"),
        (leaked_instance, "I3"),
        (leaked_volume, "I3"),
        (leaked_unit, "I3"),
        (unsettled, "I3"),
        (open_operation, "I4"),
        (open_step, "I4"),
        (lost_vm, "I6"),
        (vm_elsewhere, "I6"),
        (vm_elsewhere, "I7"),
        (vm_off, "I6"),
        (seen_twice, "I7"),
        (stranger_gone, "I9"),
        (image_gone, "I9"),
        (record_gone, "I11"),
        (waits_with_its_gpu, "I12"),
        (runs_without_its_vm, "I12"),
        (ready_without_its_vm, "I13"),
    )
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_named(name: str, sound: Dump) -> None:
    breaks, rule = BROKEN[name]
    found = copy.deepcopy(sound)
    breaks(found)
    assert rule in {each.rule for each in check(found, sound)}


def test_a_host_that_could_not_be_read_accuses_nobody(sound: Dump) -> None:
    found = copy.deepcopy(sound)
    found["hosts"]["h1"] = None
    assert check(found, sound) == []


def test_a_task_that_failed_needs_an_operator_unless_it_was_overtaken(sound: Dump) -> None:
    found = copy.deepcopy(sound)
    task = found["store"]["task"][-1]
    task.update(state="failed", error="the host says no")
    assert len(needs_operator(Seen(found))) == 1
    task["error"] = "superseded by a newer change"
    assert needs_operator(Seen(found)) == []


@pytest.mark.parametrize("path", sorted(HERE.glob("*.py")), ids=lambda path: path.name)
def test_it_shares_no_code_with_what_it_checks(path: Path) -> None:
    if path.name.startswith("test_"):
        return
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    assert not [name for name in names if name.partition(".")[0] == "vgpumgr"]
    assert not [name for name in names if name.startswith("tests.") and "checker" not in name]
