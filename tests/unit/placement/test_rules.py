"""Each hard constraint: what it refuses, under which code, and with which numbers in its text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from vgpumgr.model.domain import NicTuning
from vgpumgr.model.gpu import Framework
from vgpumgr.model.placement import NotPlaced, Placed, Reason
from vgpumgr.model.supply import Fleet, GpuSupply, HostSupply, NumaSupply, Offer, Usage
from vgpumgr.model.vm import Affinity, GpuRequest, NumaPolicy, PlacementPolicy, VmSpec
from vgpumgr.model.vm_devices import CloudInit, DiskSpec, NicSpec
from vgpumgr.placement import FITS, explain, place

BREADTH = PlacementPolicy.BREADTH_FIRST


def offer(gib: int, series: str = "Q", **changes: object) -> Offer:
    made = Offer(
        profile=f"T4-{gib}{series}",
        framework=Framework.MDEV,
        type_id=f"nvidia-{gib}{series}",
        units=gib,
        max_instances=16 // gib,
        memory_mib=gib * 1024,
        size_class=gib,
    )
    return replace(made, **changes)  # type: ignore[arg-type]  # the names are Offer's own


WHOLE = Offer(
    profile="passthrough",
    framework=Framework.PASSTHROUGH,
    type_id="",
    units=16,
    max_instances=1,
    memory_mib=16384,
)
T4 = GpuSupply(
    id="g1",
    device="0000:41:00.0",
    model="T4",
    numa_node=0,
    units=16,
    free_slots=tuple(range(16)),
    offers=(offer(2), offer(4), offer(4, "C"), WHOLE),
    same_size=True,
)
HOST = HostSupply(
    name="h1",
    free_vcpus=32,
    free_memory_mib=65536,
    numa=(
        NumaSupply(
            id=0, free_cpus=(0, 1, 2, 3), free_memory_mib=32768, free_hugepages={1048576: 4}
        ),
        NumaSupply(
            id=1, free_cpus=(4, 5, 6, 7), free_memory_mib=32768, free_hugepages={1048576: 4}
        ),
    ),
    gpus=(T4,),
    labels={"rack": "a1"},
    networks=("default",),
    bridges=("br0",),
    pools={"default": 10**12},
)
VM = VmSpec(name="vm", vcpus=2, memory_mib=2048, gpus=(GpuRequest(profile="T4-4Q"),))


def holding(profile: Offer, count: int, gpu: GpuSupply = T4) -> GpuSupply:
    usage = Usage(
        profile=profile.profile,
        framework=profile.framework,
        units=profile.units,
        size_class=profile.size_class,
        vm="old",
    )
    return replace(
        gpu,
        usages=gpu.usages + (usage,) * count,
        free_slots=gpu.free_slots[count * profile.units :],
    )


def reasons(host: HostSupply, request: VmSpec) -> tuple[Reason, ...]:
    decision = place(Fleet(hosts=(host,)), [request], BREADTH)[0]
    assert isinstance(decision, NotPlaced)
    assert decision.request is request
    return decision.reasons


def reason(host: HostSupply, request: VmSpec) -> Reason:
    (only,) = reasons(host, request)
    return only


def placed(host: HostSupply, request: VmSpec) -> Placed:
    decision = place(Fleet(hosts=(host,)), [request], BREADTH)[0]
    assert isinstance(decision, Placed), decision
    return decision


def on(*gpus: GpuSupply) -> HostSupply:
    return replace(HOST, gpus=gpus)


def asking(**changes: object) -> VmSpec:
    return replace(VM, **changes)  # type: ignore[arg-type]  # the names are VmSpec's own


def gpus(*parts: tuple[str, int]) -> tuple[GpuRequest, ...]:
    return tuple(GpuRequest(profile=profile, count=count) for profile, count in parts)


FILTERED = NicSpec(bridge="br0", tuning=NicTuning(filter="clean"))
TAGGED = NicSpec(bridge="br0", tuning=NicTuning(vlan=5))


@pytest.mark.parametrize(
    ("host", "request_", "code", "words"),
    [
        (replace(HOST, blocked="cordoned"), VM, "host-blocked", ["h1", "cordoned"]),
        (
            replace(HOST, foreign_domains=frozenset({"vm", "b"})),
            VM,
            "name-taken",
            ["h1", "foreign domain named vm"],
        ),
        (HOST, asking(affinity=Affinity(hosts=("h2", "h3"))), "affinity-hosts", ["h2, h3"]),
        (
            HOST,
            asking(affinity=Affinity(host_labels={"rack": "b2"})),
            "host-labels",
            ["rack=a1", "rack=b2"],
        ),
        (
            replace(HOST, vm_labels=({"app": "db"}, {"app": "db", "x": "y"})),
            asking(affinity=Affinity(apart_from={"app": "db"})),
            "apart-from",
            ["already has 2", "app=db"],
        ),
        (HOST, asking(nics=(NicSpec(network="lab"),)), "network", ["'lab'", "default"]),
        (HOST, asking(nics=(NicSpec(bridge="br7"),)), "bridge", ["'br7'", "br0"]),
        (HOST, asking(nics=(FILTERED,)), "network-filter", ["'clean'", "none"]),
        (HOST, asking(nics=(TAGGED,)), "bridge-vlan", ["h1", "libvirt 11.0"]),
        (HOST, asking(tpm=True), "tpm", ["h1", "swtpm"]),
        (HOST, asking(secure_boot=True), "secure-boot", ["h1", "ovmf"]),
        (
            replace(HOST, images={"cad@1-0a1b2c3d.qcow2": ()}),
            asking(disks=(DiskSpec(image="cad@1-0a1b2c3d.qcow2"),)),
            "image",
            ["h1", "cad@1", "'default'"],
        ),
        (HOST, asking(disks=(DiskSpec(pool="fast"),)), "storage-pool", ["'fast'", "default"]),
        (
            replace(HOST, pool_sizes={"default": 1 << 40}),
            asking(disks=(DiskSpec(size_bytes=2 << 40), DiskSpec(pool="default"))),
            "pool-size",
            ["h1", "default", "1TiB", "2TiB"],
        ),
        (
            replace(HOST, pools={"default": 3 << 40}, pool_sizes={"default": 9 << 40}),
            asking(disks=(DiskSpec(size_bytes=2 << 40), DiskSpec(size_bytes=2 << 40))),
            "pool-free",
            ["h1", "default", "3TiB", "4TiB"],
        ),
        (
            replace(HOST, stalled_pools=("default",)),
            asking(disks=(DiskSpec(),)),
            "pool-stalled",
            ["h1", "default", "does not answer"],
        ),
        (
            replace(HOST, raw_pools=frozenset({"default"})),
            asking(disks=(DiskSpec(),)),
            "pool-format",
            ["h1", "default", "format: raw"],
        ),
        (HOST, asking(cloud_init=CloudInit(pool="seed")), "storage-pool", ["'seed'"]),
        (HOST, asking(vcpus=33), "vcpus", ["32", "33"]),
        (HOST, asking(memory_mib=65537), "memory", ["65536 MiB", "65537 MiB"]),
        (HOST, asking(memory_mib=9216, hugepage_kib=1048576), "hugepages", ["8", "9", "1048576"]),
        (HOST, asking(memory_mib=1024, hugepage_kib=2048), "hugepages", ["0", "512", "2048 KiB"]),
        (HOST, asking(vcpus=9, pin_cpus=True), "pinned-cpus", ["8", "9"]),
        (replace(HOST, gpus=()), VM, "no-gpu", ["h1", "1 needed"]),
    ],
)
def test_a_host_refuses_once_with_its_numbers(
    host: HostSupply, request_: VmSpec, code: str, words: list[str]
) -> None:
    refused = reason(host, request_)
    assert (refused.code, refused.host, refused.gpu) == (code, "h1", "")
    for word in words:
        assert word in refused.text


@pytest.mark.parametrize(
    ("gpu", "request_", "code", "text"),
    [
        (replace(T4, blocked="quarantined: Xid 79"), VM, "gpu-blocked", "quarantined: Xid 79"),
        (
            T4,
            asking(gpus=(GpuRequest(profile="T4-4Q", model="A40"),)),
            "model",
            "T4 0000:41:00.0 is not of model A40",
        ),
        (
            T4,
            asking(gpus=gpus(("A40-8Q", 1))),
            "profile",
            "does not offer A40-8Q (it offers T4-2Q,",
        ),
        (
            replace(T4, passthrough_blocked="IOMMU is off"),
            asking(gpus=gpus(("passthrough", 1))),
            "passthrough-blocked",
            "IOMMU is off",
        ),
        (
            holding(offer(4), 1),
            asking(gpus=gpus(("passthrough", 1))),
            "in-use",
            "passthrough needs an empty GPU: T4 0000:41:00.0 has 1 × T4-4Q, 4 of 16 units taken",
        ),
        (
            replace(T4, free_slots=tuple(range(1, 16))),
            asking(gpus=gpus(("passthrough", 1))),
            "in-use",
            "has 1 of 16 units taken",
        ),
        (
            holding(WHOLE, 1),
            VM,
            "given-whole",
            "T4 0000:41:00.0 is passed through whole to VM old, no room for T4-4Q",
        ),
        (
            holding(offer(4), 3),
            asking(gpus=gpus(("T4-2Q", 1))),
            "same-size",
            "same-size rule: T4 0000:41:00.0 holds 4 GiB vGPUs (3 of them), T4-2Q is 2 GiB",
        ),
        (
            replace(T4, offers=(offer(4, max_per_vm=1),)),
            asking(gpus=gpus(("T4-4Q", 2))),
            "max-per-vm",
            "T4-4Q on T4 0000:41:00.0 allows 1 in one VM, 2 vGPUs are requested",
        ),
        (
            holding(offer(4), 1, replace(T4, offers=(offer(4, max_instances=1),))),
            VM,
            "max-instances",
            "T4 0000:41:00.0 holds 1 T4-4Q, 1 is the most",
        ),
        (
            replace(T4, available={"nvidia-4Q": 0}),
            VM,
            "driver-available",
            "offers 0 more T4-4Q",
        ),
        (
            replace(T4, free_slots=(3, 9, 11)),
            VM,
            "free-slots",
            "T4 0000:41:00.0 has 3 of 16 units free, T4-4Q takes 4",
        ),
    ],
)
def test_a_gpu_refuses_with_its_numbers(
    gpu: GpuSupply, request_: VmSpec, code: str, text: str
) -> None:
    refused = reason(on(gpu), request_)
    assert (refused.code, refused.host) == (code, "h1")
    assert (refused.gpu, refused.device, refused.model) == ("g1", "0000:41:00.0", "T4")
    assert text in refused.text


def test_the_same_size_rule_allows_another_series_of_the_same_size() -> None:
    part = placed(on(holding(offer(4), 3)), asking(gpus=gpus(("T4-4C", 1)))).assignments[0]
    assert part.slots == (12, 13, 14, 15)


def test_a_mixed_size_gpu_takes_any_size() -> None:
    mixed = replace(T4, same_size=False, offers=tuple(replace(o, size_class=0) for o in T4.offers))
    held = holding(mixed.offers[1], 3, mixed)
    assert placed(on(held), asking(gpus=gpus(("T4-2Q", 2))))


def test_a_foreign_vgpu_of_unknown_size_keeps_others_off_a_same_size_gpu() -> None:
    foreign = Usage(profile="?", framework=Framework.MDEV, units=1, foreign="mdev 1234")
    gpu = replace(T4, usages=(foreign,), free_slots=T4.free_slots[1:])
    assert "holds unknown-size vGPUs (1 of them)" in reason(on(gpu), VM).text


def test_a_limit_of_one_vgpu_per_vm_leaves_whole_gpus_out() -> None:
    one = replace(T4, offers=(offer(4, max_per_vm=1), WHOLE))
    two = replace(one, id="g2", device="0000:42:00.0")
    decision = placed(on(one, two), asking(gpus=gpus(("T4-4Q", 1), ("passthrough", 1))))
    assert [part.offer.profile for part in decision.assignments] == ["T4-4Q", "passthrough"]
    assert {part.gpu for part in decision.assignments} == {"g1", "g2"}


def test_the_model_is_compared_without_case() -> None:
    assert placed(HOST, asking(gpus=(GpuRequest(profile="T4-4Q", model="t4"),)))


def test_the_drivers_count_falls_as_we_place() -> None:
    fleet = Fleet(hosts=(on(replace(T4, available={"nvidia-4Q": 2})),))
    first, second, third = place(fleet, [replace(VM, name=n) for n in "abc"], BREADTH)
    assert isinstance(first, Placed)
    assert isinstance(second, Placed)
    assert isinstance(third, NotPlaced)
    assert "offers 2 more T4-4Q (2 of them planned)" in third.reasons[0].text


def test_every_gpu_says_why_and_those_with_room_say_what_is_missing_around_them() -> None:
    others = (replace(T4, id="g2", device="0000:42:00.0"), holding(offer(4), 1, T4))
    host = on(replace(others[1], id="g1"), others[0])
    refused = reasons(host, asking(gpus=gpus(("passthrough", 2))))
    assert [(r.gpu, r.code) for r in refused] == [("g1", "in-use"), ("g2", "gpu-count")]
    assert "h1 has room for 1 of 2 passthrough that one VM needs" in refused[1].text


def test_parts_that_fit_alone_but_not_together_are_refused_as_such() -> None:
    refused = reason(HOST, asking(gpus=gpus(("passthrough", 1), ("T4-4Q", 1))))
    assert refused.code == "gpu-count"
    assert "cannot hold all GPU parts of the VM together" in refused.text


def test_numa_require_refuses_a_gpu_of_unknown_node_and_prefer_takes_it() -> None:
    unknown = on(replace(T4, numa_node=None))
    assert reason(unknown, asking(numa=NumaPolicy.REQUIRE)).code == "numa"
    assert "unknown" in reason(unknown, asking(numa=NumaPolicy.REQUIRE)).text
    decision = placed(unknown, asking(numa=NumaPolicy.PREFER, pin_cpus=True))
    assert (decision.numa_node, decision.cpus) == (0, (0, 1))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"pin_cpus": True, "vcpus": 5}, "node 0, which has 4 free CPUs of 5 needed"),
        ({"memory_mib": 40000}, "node 0, which has 32768 MiB free of 40000 needed"),
        ({"memory_mib": 5120, "hugepage_kib": 1048576}, "has 4 huge pages of 1048576 KiB free of"),
    ],
)
def test_numa_require_wants_all_on_the_gpus_node_and_prefer_falls_back(
    changes: Mapping[str, object], words: str
) -> None:
    refused = reason(HOST, asking(numa=NumaPolicy.REQUIRE, **changes))
    assert refused.code == "numa"
    assert words in refused.text
    assert placed(HOST, asking(numa=NumaPolicy.PREFER, **changes)).numa_node is None


def test_numa_require_wants_all_gpus_on_one_node() -> None:
    apart = on(T4, replace(T4, id="g2", numa_node=1))
    request = asking(numa=NumaPolicy.REQUIRE, gpus=gpus(("passthrough", 2)))
    codes = [refused.code for refused in reasons(apart, request)]
    assert codes == ["gpu-count", "gpu-count"]
    assert placed(apart, replace(request, numa=NumaPolicy.PREFER)).numa_node is None


def test_numa_require_without_gpus_wants_cpus_and_memory_on_one_node() -> None:
    request = asking(gpus=(), numa=NumaPolicy.REQUIRE, vcpus=5, pin_cpus=True)
    refused = reason(HOST, request)
    assert (refused.code, refused.gpu) == ("numa", "")
    assert "node 0: 4 free CPUs of 5 needed; node 1: 4 free CPUs of 5 needed" in refused.text


def test_numa_prefer_puts_cpus_and_memory_next_to_the_gpu() -> None:
    far = on(replace(T4, numa_node=1))
    decision = placed(far, asking(pin_cpus=True))
    assert (decision.numa_node, decision.cpus) == (1, (4, 5))


def test_together_with_follows_the_group_and_its_first_member_is_free_to_choose() -> None:
    second = replace(HOST, name="h2", vm_labels=({"app": "db"},))
    fleet = Fleet(hosts=(HOST, second))
    request = asking(gpus=(), affinity=Affinity(together_with={"app": "db"}))
    (decision,) = place(fleet, [request], BREADTH)
    assert isinstance(decision, Placed)
    assert decision.host == "h2"
    empty = Fleet(hosts=(HOST, replace(second, vm_labels=())))
    (refused,) = place(empty, [request], BREADTH)
    assert isinstance(refused, NotPlaced)
    assert {r.code for r in refused.reasons} == {"together-with"}
    member = replace(request, labels={"app": "db"})
    founder, follower = place(empty, [member, replace(member, name="vm2")], BREADTH)
    assert isinstance(founder, Placed)
    assert isinstance(follower, Placed)
    assert founder.host == follower.host


def test_replicas_apart_from_themselves_spread_one_per_host() -> None:
    fleet = Fleet(hosts=tuple(replace(HOST, name=f"h{n}") for n in range(3)))
    request = asking(labels={"app": "db"}, affinity=Affinity(apart_from={"app": "db"}))
    decisions = place(fleet, [replace(request, name=f"db-{n}") for n in range(4)], BREADTH)
    hosts = [d.host for d in decisions if isinstance(d, Placed)]
    assert sorted(hosts) == ["h0", "h1", "h2"]
    assert isinstance(decisions[3], NotPlaced)
    assert [r.code for r in decisions[3].reasons] == ["apart-from"] * 3


def test_explain_says_for_every_gpu_whether_it_fits_or_why_not() -> None:
    cordoned = replace(HOST, name="h2", blocked="cordoned", gpus=(replace(T4, id="g3"),))
    bare = replace(HOST, name="h3", gpus=())
    full = replace(holding(offer(4), 4), id="g2")
    fleet = Fleet(hosts=(on(holding(offer(4), 1), full), cordoned, bare))
    told = explain(fleet, VM)
    assert [(r.host, r.gpu, r.code) for r in told] == [
        ("h1", "g1", FITS),
        ("h1", "g2", "max-instances"),
        ("h2", "g3", "host-blocked"),
        ("h3", "", "no-gpu"),
    ]
    assert told[0].text == "T4 0000:41:00.0 has room for 3 × T4-4Q (12 of 16 units free)"
    assert told[0].facts == {"room": 3, "free": 12, "units": 16}


def test_explain_without_gpus_speaks_of_hosts() -> None:
    fleet = Fleet(hosts=(HOST, replace(HOST, name="h2", free_vcpus=1)))
    assert [(r.host, r.gpu, r.code) for r in explain(fleet, asking(gpus=()))] == [
        ("h1", "", FITS),
        ("h2", "", "vcpus"),
    ]


def test_explain_with_numa_require_tells_the_nodes_apart() -> None:
    gpu = replace(T4, id="g2", numa_node=1)
    host = replace(on(T4, gpu), numa=(replace(HOST.numa[0], free_memory_mib=100), HOST.numa[1]))
    told = explain(Fleet(hosts=(host,)), asking(numa=NumaPolicy.REQUIRE))
    assert [(r.gpu, r.code) for r in told] == [("g1", "numa"), ("g2", FITS)]
