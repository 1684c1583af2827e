"""`kind: Flavour`: what a document leaves out it gets from the flavour it asks for."""

from __future__ import annotations

import pytest

from vgpumgr.model.flavour import Flavour
from vgpumgr.spec import Documents, SpecError, load

HEAD = "apiVersion: vgpumgr/v1\nkind: {}\nname: {}\n"
SMALL = HEAD.format("Flavour", "small") + (
    "vcpus: 4\nmemory: 8GiB\ngpus: [{profile: T4-2Q}]\ndisks: [{size: 20GiB}]\nclass: gold\n"
)
POOL = HEAD.format("Pool", "lab") + (
    "image: cad@1\nmax: 2\nentitlement: {users: [ada]}\nflavour: small\n"
)


def vm(more: str = "flavour: small\n", name: str = "web") -> str:
    return HEAD.format("VM", name) + more


def loaded(*documents: str, flavours: tuple[Flavour, ...] = ()) -> Documents:
    return load("---\n".join(documents), "f.yaml", flavours=flavours)


def test_a_vm_gets_what_its_document_does_not_say() -> None:
    [made] = loaded(vm(), SMALL).vms
    assert (made.vcpus, made.memory_mib, made.flavour) == (4, 8192, "small")
    assert [each.profile for each in made.gpus] == ["T4-2Q"]
    assert [each.size_bytes for each in made.disks] == [20 << 30]
    assert made.affinity.host_labels == {"class": "gold"}


def test_what_the_document_says_comes_first() -> None:
    own = "flavour: small\nmemory: 2GiB\ngpus: []\naffinity: {host_labels: {class: iron, a: b}}\n"
    [made] = loaded(SMALL, vm(own)).vms
    assert (made.vcpus, made.memory_mib, made.gpus) == (4, 2048, ())
    assert made.affinity.host_labels == {"class": "iron", "a": "b"}


def test_a_pool_gets_it_too_and_each_replica() -> None:
    found = loaded(SMALL, POOL, vm("flavour: small\nreplicas: 2\n"))
    assert found.pools[0].desktop.vcpus == 4 and found.pools[0].desktop.flavour == "small"
    assert [(each.name, each.vcpus) for each in found.vms] == [("web-01", 4), ("web-02", 4)]


def test_a_display_may_be_that_of_the_flavours_gpu() -> None:
    assert loaded(SMALL, vm("flavour: small\ndisplay: true\n")).vms[0].display


def test_the_fleets_flavours_are_known_and_the_files_own_come_first() -> None:
    tiny, small = Flavour(name="tiny", keys={"vcpus": 1}), Flavour(name="small", keys={"vcpus": 9})
    found = loaded(vm("flavour: tiny\n", "a"), vm(), SMALL, flavours=(tiny, small))
    assert [each.vcpus for each in found.vms] == [1, 4]


def test_one_that_nobody_knows_is_said_with_its_place() -> None:
    with pytest.raises(SpecError) as caught:
        loaded(SMALL, vm("flavour: smal\n"))
    assert str(caught.value.problems[0]) == (
        "f.yaml:13:10: document 2: flavour: no flavour smal: known are small; did you mean small?"
    )


@pytest.mark.parametrize(
    "line", ["vcpus: 0", "gpus: [{profile: no-such}]", "disks: [{mode: copy}]", "networks: []"]
)
def test_a_flavour_is_checked_as_a_vm_is(line: str) -> None:
    with pytest.raises(SpecError):
        loaded(HEAD.format("Flavour", "small") + line)


def test_its_keys_are_kept_as_they_are_written() -> None:
    [small] = loaded(SMALL).flavours
    assert small.keys == {
        "vcpus": 4,
        "memory": "8GiB",
        "gpus": [{"profile": "T4-2Q"}],
        "disks": [{"size": "20GiB"}],
    }
    assert small.host_class == "gold"


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(SpecError, match="duplicate flavour name small"):
        loaded(SMALL, SMALL)
