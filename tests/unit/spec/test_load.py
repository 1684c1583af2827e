"""Documents become model values: defaults, replicas, counts, names of the field."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from vgpumgr.model.host import HostRecord, Versions
from vgpumgr.model.sim_fleet import SimBoard, SimHost
from vgpumgr.model.vm import Affinity, GpuRequest, NumaPolicy, PlacementPolicy, Terms, VmSpec
from vgpumgr.model.vm_devices import CloudInit, DiskMode, DiskSpec, NicSpec
from vgpumgr.spec import Documents, SpecError, load

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))

HEAD = "apiVersion: vgpumgr/v1\nkind: VM\nname: a\n"


def vm(text: str) -> VmSpec:
    """The one VM of a document with these lines under the head."""
    (found,) = load(HEAD + text, "test.yaml").vms
    return found


def test_a_vm_without_anything_takes_the_defaults() -> None:
    assert vm("") == VmSpec(name="a", vcpus=2, memory_mib=4096)


def test_every_key_of_a_vm_reaches_the_model() -> None:
    text = """
gpus:
  - {profile: T4-4Q, count: 2, model: T4, framework: mdev, frame_rate_limiter: false}
  - {profile: passthrough}
  - {memory: 8GiB, framework: any, model: MI300X}
vcpus: 8
memory: 16GiB
disks:
  - {size: 20GiB, pool: fast, format: raw}
  - {mode: copy, image: base.img, image_format: raw}
  - {mode: overlay, image: debian-12.qcow2, size: 40GiB}
networks: [{bridge: br0}, {network: default}]
cloud_init: {user_data: "#cloud-config\\n", network_config: "version: 2\\n", pool: seeds}
firmware: bios
display: true
console: true
agent: true
autostart: true
pin_cpus: true
numa: require
hugepages: 2MiB
affinity:
  hosts: [h1, h2]
  host_labels: {site: berlin}
  together_with: {app: db}
  apart_from: {app: web}
policy: depth-first
labels: {app: web, "example.net/tier": "1"}
tenant: design
"""
    assert vm(text) == VmSpec(
        name="a",
        vcpus=8,
        memory_mib=16384,
        gpus=(
            GpuRequest(
                profile="T4-4Q", count=2, model="T4", framework="mdev", frame_rate_limiter=False
            ),
            GpuRequest(profile="passthrough"),
            GpuRequest(memory_mib=8192, model="MI300X"),
        ),
        disks=(
            DiskSpec(pool="fast", size_bytes=20 << 30, format="raw"),
            DiskSpec(mode=DiskMode.COPY, image="base.img", image_format="raw"),
            DiskSpec(mode=DiskMode.OVERLAY, image="debian-12.qcow2", size_bytes=40 << 30),
        ),
        nics=(NicSpec(bridge="br0"), NicSpec(network="default")),
        cloud_init=CloudInit(
            user_data="#cloud-config\n", network_config="version: 2\n", pool="seeds"
        ),
        firmware="bios",
        display=True,
        console=True,
        agent=True,
        autostart=True,
        pin_cpus=True,
        numa=NumaPolicy.REQUIRE,
        hugepage_kib=2048,
        affinity=Affinity(
            hosts=("h1", "h2"),
            host_labels={"site": "berlin"},
            together_with={"app": "db"},
            apart_from={"app": "web"},
        ),
        policy=PlacementPolicy.DEPTH_FIRST,
        labels={"app": "web", "example.net/tier": "1"},
        tenant="design",
    )


@pytest.mark.parametrize(
    ("given", "terms"),
    [
        ("true", Terms()),
        ("{}", Terms()),
        ("false", None),
        ("{priority: high, spot: true}", Terms(priority=100, spot=True)),
        ("{priority: -7, runtime: 90m}", Terms(priority=-7, runtime_s=5400.0)),
        ("{after: [b, c, b], together: true}", Terms(after=("b", "c"), together="a")),
    ],
)
def test_the_terms_on_which_a_vm_waits(given: str, terms: Terms | None) -> None:
    assert vm(f"queue: {given}").queue == terms


@pytest.mark.parametrize(
    ("count", "first", "last"),
    [(1, "a-01", "a-01"), (3, "a-01", "a-03"), (99, "a-01", "a-99"), (100, "a-01", "a-100")],
)
def test_replicas_are_numbered_with_at_least_two_digits(count: int, first: str, last: str) -> None:
    names = [each.name for each in load(f"{HEAD}replicas: {count}\n", "test.yaml").vms]
    assert (len(names), names[0], names[-1]) == (count, first, last)


def test_a_thousand_replicas_are_checked_once() -> None:
    text = HEAD + "replicas: 1000\ngpus: [{profile: T4-4Q}]\nlabels: {a: b}\n"
    vms = load(text, "test.yaml").vms
    assert len(vms) == 1000
    assert vms[0].gpus is vms[999].gpus and vms[0].labels is vms[999].labels


@pytest.mark.parametrize("prefix", ["GRID ", "NVIDIA ", ""])
def test_a_profile_drops_the_leading_grid_or_nvidia(prefix: str) -> None:
    assert vm(f"gpus: [{{profile: {prefix}T4-4Q}}]").gpus == (GpuRequest(profile="T4-4Q"),)


@pytest.mark.parametrize("name", ["1g.10gb", "1g.10gb+me", "1g.24gb+gfx", "MI300X-1of8"])
def test_mig_profiles_and_parts_of_plain_vfs_are_profiles(name: str) -> None:
    assert vm(f"gpus: [{{profile: {name}}}]").gpus == (GpuRequest(profile=name),)


def test_a_profile_learned_from_a_host_is_known() -> None:
    text = HEAD + "gpus: [{profile: mtty-1}]\n"
    (found,) = load(text, "test.yaml", known_profiles=frozenset({"mtty-1"})).vms
    assert found.gpus == (GpuRequest(profile="mtty-1"),)


def test_words_that_yaml_1_1_would_turn_into_booleans_stay_text() -> None:
    assert vm("labels: {country: no, at: 12:30, day: 2026-01-01}").labels == {
        "country": "no",
        "at": "12:30",
        "day": "2026-01-01",
    }


def test_a_host_document_becomes_a_host_record() -> None:
    text = (
        "apiVersion: vgpumgr/v1\nkind: Host\nname: h1\naddress: root@h1:22\nlabels: {rack: r1}\n"
        "cordoned: true\ncpu_overcommit: 2\nreserved_memory: 8GiB\naccelerator: tcg\n"
    )
    assert load(text, "test.yaml") == Documents(
        hosts=(
            HostRecord(
                name="h1",
                address="root@h1:22",
                labels={"rack": "r1"},
                cordoned=True,
                cpu_overcommit=2.0,
                reserved_memory_mib=8192,
                accelerator="tcg",
            ),
        )
    )


@pytest.mark.parametrize(
    "address",
    ["local", "sim://t4-01", "h1", "root@h1", "a.b-c@h1.example.net:2222", "root@[::1]:22"],
)
def test_addresses_that_ssh_and_the_simulation_know(address: str) -> None:
    text = f"apiVersion: vgpumgr/v1\nkind: Host\nname: h1\naddress: '{address}'\n"
    assert load(text, "test.yaml").hosts == (HostRecord(name="h1", address=address),)


def test_a_fleet_document_expands_counts() -> None:
    text = """
apiVersion: vgpumgr/v1
kind: Fleet
name: demo
hosts:
  - {name: t4, count: 8, gpus: [{board: T4, count: 4}]}
  - name: odd
    gpus: [{board: A40}, {board: P40, count: 2}]
    cpus: 16
    memory: 64GiB
    numa_nodes: 1
    hugepages_1gib: 4
    iommu: false
    kvm: false
    versions: {kernel: 6.8.0, libvirt: 10.3.0, qemu: 9.0.0, driver: 570.1.0}
    pools: [default, fast]
    networks: []
    bridges: [br1]
    images: [a.qcow2]
    cpu_model: Intel(R) Xeon(R) Gold 6338
    tls: false
"""
    (fleet,) = load(text, "test.yaml").fleets
    assert [each.name for each in fleet.hosts] == [f"t4-{n:02d}" for n in range(1, 9)] + ["odd"]
    assert fleet.hosts[7] == SimHost(name="t4-08", boards=(SimBoard(board="T4", count=4),))
    assert fleet.hosts[8] == SimHost(
        name="odd",
        boards=(SimBoard(board="A40"), SimBoard(board="P40", count=2)),
        cpus=16,
        memory_mib=65536,
        numa_nodes=1,
        hugepages_1gib=4,
        iommu=False,
        kvm=False,
        versions=Versions(kernel="6.8.0", libvirt="10.3.0", qemu="9.0.0", driver="570.1.0"),
        pools=("default", "fast"),
        networks=(),
        bridges=("br1",),
        images=("a.qcow2",),
        cpu_model="Intel(R) Xeon(R) Gold 6338",
        tls=False,
    )


def test_documents_keep_the_order_of_the_file_and_empty_ones_are_skipped() -> None:
    text = f"---\n---\n{HEAD}---\n# nothing\n---\n{HEAD.replace('name: a', 'name: b')}"
    assert [each.name for each in load(text, "test.yaml").vms] == ["a", "b"]
    assert load("", "test.yaml") == Documents()


def test_json_and_a_byte_order_mark_are_read_too() -> None:
    document = {"apiVersion": "vgpumgr/v1", "kind": "VM", "name": "a", "labels": {"x": "é\t"[:1]}}
    text = json.dumps(document).encode()
    assert load(text, "test.yaml") == load(b"\xef\xbb\xbf" + text, "test.yaml")
    assert load(text, "test.yaml").vms[0].labels == {"x": "é"}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_load(example: Path) -> None:
    found = load(example.read_bytes(), example.name)
    fleet = found.hosts or found.fleets or found.layouts
    assert found.vms or found.pools or found.flavours or fleet


def test_the_model_and_the_catalogue_never_import_pydantic() -> None:
    program = (
        "import sys, vgpumgr.catalog, vgpumgr.model.vm, vgpumgr.model.host\n"
        "assert not {'pydantic', 'yaml'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


SCALE = "scale: {min: 2, max: 8, triggers: [{metric: gpu, threshold: 90%}]}\n"
VGPU = "gpus: [{profile: A40-8Q}]\n"


def test_replicas_that_scale_are_as_many_as_their_least() -> None:
    found = load(f"{HEAD}{VGPU}{SCALE}", "test.yaml").vms
    names = [each.name for each in found]
    [scale] = {each.scale for each in found}
    assert scale is not None
    assert names == [scale.name(number) for number in (1, 2)]
    assert (scale.group, scale.least, scale.most) == (names[0].rpartition("-")[0], 2, 8)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (f"{VGPU}{SCALE}replicas: 3\n", "replicas: say it with scale"),
        (f"{VGPU}{SCALE}queue: true\n", "queue: replicas that scale do not wait"),
        (SCALE, "scale.triggers[0].metric: is never measured"),
        (f"gpus: [{{profile: passthrough}}]\n{SCALE}", "is never measured"),
        (VGPU + SCALE.replace("min: 2", "min: 9"), "scale.min: 9 is more than max: 8"),
        (VGPU + SCALE.replace("max: 8, ", ""), "scale.max: is missing"),
        (VGPU + SCALE.replace("gpu,", "sessions,"), "scale.triggers[0].metric"),
        (f"{VGPU}{SCALE}uuid: 6a5f3c1e-0b7d-4c8e-9f21-3d4e5f6a7b8c\n", "uuid: one UUID"),
    ],
)
def test_a_scale_of_replicas_that_cannot_be_is_named(lines: str, message: str) -> None:
    with pytest.raises(SpecError) as refused:
        load(f"{HEAD}{lines}", "test.yaml")
    assert message in str(refused.value)
