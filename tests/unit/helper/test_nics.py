"""VFs of NICs through the helper: what a probe tells, and trust and spoof check under a claim."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from tests.unit.helper.host import CLAIM, PCI, FakeHost, call, done, refused
from vgpumgr.helper import allowed_programs
from vgpumgr.helper.arguments import Call
from vgpumgr.helper.facts.nics import nics
from vgpumgr.helper.verbs.boot_restore import restore

PF, VF, OTHER = "0000:3b:00.0", "0000:3b:02.0", "0000:3b:02.1"
BUS = "/sys/devices/pci0000:3a/0000:3a:01.0"
NET = "/sys/class/net"
TAKE = {"address": VF, "claim": CLAIM, "trust": True, "spoof_check": False}


class Nic:
    """``ip link`` of one interface whose driver may refuse, or take a moment."""

    def __init__(self) -> None:
        self.set: dict[int, dict[str, bool]] = {
            n: {"trust": False, "spoofchk": True} for n in (0, 1)
        }
        self.refuses: set[str] = set()
        self.resetting = 0
        self.vlan_key = "vlan_list"

    def __call__(self, argv: Sequence[str]) -> tuple[int, str]:
        if argv[1:4] == ("-j", "link", "show"):
            vlan = [{"vlan": 20}] if self.vlan_key == "vlan_list" else 20
            told = [
                {"vf": n, "address": "52:54:00:00:00:01", self.vlan_key: vlan, **has}
                for n, has in self.set.items()
            ]
            return 0, json.dumps([{"ifname": argv[5], "vfinfo_list": told}])
        number, what, value = int(argv[6]), argv[7], argv[8]
        if self.resetting:
            self.resetting -= 1
            return 2, "RTNETLINK answers: Resource temporarily unavailable\n"
        if what in self.refuses:
            return 2, "RTNETLINK answers: Operation not supported\n"
        self.set[number][what] = value == "on"
        return 0, ""


@pytest.fixture
def host() -> FakeHost:
    made = FakeHost()
    for address, kind in ((PF, "0x020000"), (VF, "0x020000"), (OTHER, "0x020000")):
        made.links[f"{PCI}/devices/{address}"] = f"{BUS}/{address}"
        made.files[f"{BUS}/{address}/class"] = f"{kind}\n"
    made.files |= {
        f"{BUS}/{PF}/sriov_totalvfs": "8\n",
        f"{BUS}/{PF}/numa_node": "1\n",
        f"{NET}/ens1f0/flags": "0x1003\n",
        f"{NET}/ens1f0/speed": "100000\n",
        f"{NET}/lo/flags": "0x9\n",
    }
    made.links |= {
        f"{NET}/ens1f0/device": f"../../../{PF}",
        f"{BUS}/{PF}/virtfn0": f"../{VF}",
        f"{BUS}/{PF}/virtfn1": f"../{OTHER}",
        f"{BUS}/{VF}/physfn": f"../{PF}",
        f"{BUS}/{OTHER}/physfn": f"../{PF}",
        f"{BUS}/{PF}/driver": "../../bus/pci/drivers/ice",
    }
    made.programs["ip"] = Nic()
    return made


def port(host: FakeHost) -> Nic:
    found = host.programs["ip"]
    assert isinstance(found, Nic)
    return found


def test_a_probe_tells_the_nic_and_its_vfs(host: FakeHost) -> None:
    (told,) = nics(host)
    assert told["name"] == "ens1f0"
    assert (told["address"], told["path"]) == (PF, f"{BUS}/{PF}")
    assert (told["numa_node"], told["up"], told["speed_mbit"]) == (1, True, 100000)
    assert (told["driver"], told["total"]) == ("ice", 8)
    assert [(vf["number"], vf["address"], vf["busy"]) for vf in told["vfs"]] == [
        (0, VF, ""),
        (1, OTHER, ""),
    ]


def test_a_representor_is_no_nic(host: FakeHost) -> None:
    """In switchdev mode a VF's port is an interface of the PF's device."""
    host.links[f"{NET}/eth0/device"] = f"../../../{PF}"
    host.files[f"{NET}/eth0/phys_port_name"] = "pf0vf0\n"
    assert [told["name"] for told in nics(host)] == ["ens1f0"]


@pytest.mark.parametrize(
    ("files", "links", "why"),
    [
        ({f"{NET}/v0/flags": "0x1003\n"}, {}, "its interface v0 is up"),
        (
            {f"{NET}/v0/flags": "0x1002\n"},
            {f"{NET}/v0/master": "../br0"},
            "its interface v0 is part of br0",
        ),
    ],
)
def test_a_vf_that_the_host_uses_is_busy_and_not_taken(
    host: FakeHost, files: dict[str, str], links: dict[str, str], why: str
) -> None:
    host.files |= {f"{BUS}/{VF}/net/v0/address": "", **files}
    host.links |= links
    assert nics(host)[0]["vfs"][0]["busy"] == why
    assert refused(host, "nic_vf_take", **TAKE)["code"] == "in-use"
    assert not host.claims()


def test_trust_and_spoof_check_are_set_read_back_and_put_back(host: FakeHost) -> None:
    assert done(host, "nic_vf_take", **TAKE) == {"trust": True, "spoof_check": False}
    assert port(host).set[0] == {"trust": True, "spoofchk": False}
    assert port(host).set[1] == {"trust": False, "spoofchk": True}
    seen = done(host, "nic_vf_look", address=VF)
    assert (seen["vlan"], seen["trust"], seen["spoof_check"]) == (20, True, False)
    assert (seen["interface"], seen["number"]) == ("ens1f0", 0)
    assert seen["claim"]["wanted"]["kind"] == "nic"
    assert done(host, "nic_vf_release", address=VF, claim=CLAIM) == {"released": True}
    assert port(host).set[0] == {"trust": False, "spoofchk": True}
    assert not host.claims()
    assert done(host, "nic_vf_release", address=VF, claim=CLAIM) == {"released": False}


def test_an_older_ip_tells_the_vlan_alone(host: FakeHost) -> None:
    port(host).vlan_key = "vlan"
    assert done(host, "nic_vf_look", address=VF)["vlan"] == 20


def test_a_driver_that_refuses_leaves_no_claim(host: FakeHost) -> None:
    port(host).refuses.add("trust")
    error = refused(host, "nic_vf_take", **TAKE)
    assert error["code"] == "refused"
    assert error["message"] == "ens1f0 does not set its VF 0 so"
    assert "trust is False" in error["why"]
    assert "Operation not supported" in error["why"]
    assert not host.claims()


def test_a_vf_in_reset_is_waited_for(host: FakeHost) -> None:
    port(host).resetting = 5
    done(host, "nic_vf_take", **TAKE)
    assert port(host).set[0]["trust"] is True


def test_a_vf_is_one_vms(host: FakeHost) -> None:
    done(host, "nic_vf_take", **TAKE)
    other = {**CLAIM, "allocation": "alloc-2"}
    error = refused(host, "nic_vf_take", **{**TAKE, "claim": other})
    assert error["code"] == "claim-mismatch"
    assert refused(host, "nic_vf_release", address=VF, claim=other)["code"] == "claim-mismatch"


def test_a_guest_that_has_it_keeps_it(host: FakeHost) -> None:
    done(host, "nic_vf_take", **TAKE)
    host.links[f"{BUS}/{VF}/iommu_group"] = "../../../kernel/iommu_groups/77"
    host.open_groups.add(77)
    assert refused(host, "nic_vf_release", address=VF, claim=CLAIM)["code"] == "in-use"
    assert host.claims()


@pytest.mark.parametrize("address", [PF, "0000:3b:1f.0"])
def test_what_is_no_vf_of_a_nic_is_left_alone(host: FakeHost, address: str) -> None:
    error = refused(host, "nic_vf_take", **{**TAKE, "address": address})
    assert error["code"] in {"refused", "not-found"}
    assert not [argv for argv in host.log if argv[0] == "write"]


def test_a_vf_of_a_gpu_is_no_nic(host: FakeHost) -> None:
    host.files[f"{BUS}/{VF}/class"] = "0x030200\n"
    assert "is no VF of a NIC" in refused(host, "nic_vf_take", **TAKE)["message"]


def test_a_boot_sets_it_again(host: FakeHost) -> None:
    done(host, "nic_vf_take", **TAKE)
    port(host).set[0] = {"trust": False, "spoofchk": True}
    assert restore(Call(host, {})) == {"restored": [f"pci-{VF}"], "failed": []}
    assert port(host).set[0] == {"trust": True, "spoofchk": False}


def test_vfs_that_are_off_after_a_boot_are_named(host: FakeHost) -> None:
    done(host, "nic_vf_take", **TAKE)
    del host.links[f"{PCI}/devices/{VF}"]
    host.files.pop(f"{BUS}/{VF}/class")
    (failed,) = restore(Call(host, {}))["failed"]
    assert failed["unit"] == f"pci-{VF}"
    assert "are the VFs on?" in failed["why"]


@pytest.mark.parametrize(
    "args",
    [
        ("link", "set", "dev", "ens1f0", "down"),
        ("link", "set", "dev", "ens1f0", "vf", "0", "mac", "52:54:00:00:00:01"),
        ("addr", "flush", "dev", "ens1f0"),
        ("-j", "link", "show", "dev", "ens1f0", "up"),
    ],
)
def test_ip_does_nothing_else(args: tuple[str, ...]) -> None:
    with pytest.raises(OSError, match="not a program the helper runs"):
        allowed_programs.run(("ip", *args), 1.0)


def test_nonsense_of_ip_is_unknown(host: FakeHost) -> None:
    host.programs["ip"] = (0, '[{"vfinfo_list": [{"vf": 0}]}]')
    assert call(host, "nic_vf_look", address=VF)["error"]["code"] == "unknown"
