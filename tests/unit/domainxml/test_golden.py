"""Golden domain XML: a plan in YAML, the XML beside it; rewritten with VGPUMGR_REWRITE_GOLDEN=1."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import libvirt
import pytest
import yaml

from vgpumgr import domainxml, guests
from vgpumgr.domainxml.libvirt_acceptance import SCHEMA_DIR
from vgpumgr.model.codec import from_plain
from vgpumgr.model.domain import DomainPlan, MdevHostdev, NumaSeat, NumaShare, PciHostdev
from vgpumgr.model.host import Versions

GOLDEN = Path(__file__).parents[2] / "golden"
CASES = sorted(path.stem for path in (GOLDEN / "domain").glob("*.yaml"))


def case(name: str) -> tuple[DomainPlan, Versions]:
    data = yaml.safe_load((GOLDEN / "domain" / f"{name}.yaml").read_text())
    hostdevs = tuple(
        (MdevHostdev if "uuid" in each else PciHostdev)(**each)
        for each in data["plan"].pop("hostdevs", [])
    )
    system = guests.system(data["system"]) if "system" in data else None
    plan = replace(from_plain(DomainPlan, data["plan"]), hostdevs=hostdevs, system=system)
    return plan, from_plain(Versions, data["versions"])


def known_here() -> list[str]:
    """Cases whose libvirt is not newer than this machine's, which would drop or refuse parts."""
    number = libvirt.getVersion()
    here = (number // 1_000_000, number // 1_000 % 1_000, number % 1_000)
    return [name for name in CASES if tuple(map(int, case(name)[1].libvirt.split("."))) <= here]


def define(documents: list[str], *flags: str) -> list[str]:
    """What a real libvirt keeps of these domains."""
    with tempfile.TemporaryDirectory(prefix="vx", dir="/tmp") as root:  # sockets: short paths
        done = subprocess.run(
            [sys.executable, GOLDEN / "define.py", root, *flags],
            input=json.dumps(documents),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    answers: list[str] = json.loads(done.stdout)
    return answers


@pytest.mark.parametrize("name", CASES)
def test_a_plan_renders_to_its_golden_xml(name):
    path = GOLDEN / "domain" / f"{name}.xml"
    rendered = domainxml.render(*case(name))
    if os.environ.get("VGPUMGR_REWRITE_GOLDEN") == "1":
        path.write_text(rendered)
    assert rendered == path.read_text()


@pytest.mark.libvirtd
@pytest.mark.parametrize("name", known_here())
def test_golden_xml_satisfies_libvirts_schema(name):
    assert SCHEMA_DIR.is_dir()
    assert domainxml.validate(domainxml.render(*case(name))) == domainxml.Validation()


@pytest.mark.libvirtd
@pytest.mark.root
def test_a_real_libvirt_keeps_all_we_ask_for():
    plans = [case(name) for name in known_here()]
    if not Path("/dev/kvm").exists():
        plans = [(replace(plan, accelerator="tcg"), versions) for plan, versions in plans]
    sent = [domainxml.render(plan, versions) for plan, versions in plans]
    for plan_versions, asked, kept in zip(plans, sent, define(sent), strict=True):
        assert domainxml.differences(asked, kept) == ()
        ours, theirs = domainxml.parse(asked), domainxml.parse(kept)
        assert ours == theirs
        assert theirs.ownership == plan_versions[0].ownership


@pytest.mark.libvirtd
@pytest.mark.root
@pytest.mark.parametrize("firmware", ["uefi", "bios"])
def test_a_real_libvirt_starts_it_with_a_large_pci_window_and_graphics(firmware):
    plan, versions = case("tcg")
    plan = replace(plan, firmware=firmware, hostdevs=(), graphics=True, cpus=(0,))
    asked = domainxml.render(plan, versions)
    [kept] = define([asked], "--start")
    assert domainxml.differences(asked, kept) == ()


@pytest.mark.libvirtd
@pytest.mark.root
def test_a_real_libvirt_starts_it_with_secure_boot_and_a_tpm():
    plan, versions = case("secured")
    plan = replace(plan, accelerator="tcg", disks=(), nics=(), cpu_shares=None)
    asked = domainxml.render(plan, versions)
    [kept] = define([asked], "--start")
    assert domainxml.differences(asked, kept) == ()


@pytest.mark.libvirtd
@pytest.mark.root
@pytest.mark.thorough
def test_a_real_libvirt_starts_the_machine_of_windows_11():
    plan, versions = case("windows-11")
    plan = replace(
        plan,
        accelerator="tcg",
        memory_mib=512,
        disks=(),
        nics=(),
        hostdevs=(),
        optional_devices=("agent", "tpm"),
    )
    asked = domainxml.render(plan, versions)
    [kept] = define([asked], "--start")
    assert domainxml.differences(asked, kept) == ()


@pytest.mark.libvirtd
@pytest.mark.root
@pytest.mark.parametrize("strict", [True, False])
def test_a_real_libvirt_starts_it_with_guest_cells_and_memory_bound_to_a_node(strict):
    plan, versions = case("tcg")
    shares = (
        NumaShare(node=0, cpus=(0,), vcpus=(0,), memory_mib=96),
        NumaShare(node=0, cpus=(0,), vcpus=(1, 2), memory_mib=160),
    )
    seat = NumaSeat(shares=shares, strict=strict)
    plan = replace(plan, hostdevs=(), vcpus=3, memory_mib=256, seat=seat, cpus=())
    alone = NumaSeat(shares=(NumaShare(node=0, cpus=(0,)),), strict=strict)
    asked = [
        domainxml.render(each, versions) for each in (plan, replace(plan, seat=alone, name="one"))
    ]
    asked[1] = asked[1].replace(plan.uuid, plan.uuid[:-1] + "f")
    for sent, kept in zip(asked, define(asked, "--start"), strict=True):
        assert domainxml.differences(sent, kept) == ()


def test_every_device_ends_in_the_facts_read_back():
    plan, versions = case("mdev-desktop")
    facts = domainxml.parse(domainxml.render(plan, versions))
    assert facts.devices == tuple(each.uuid.lower() for each in plan.hostdevs)
    assert (facts.name, facts.uuid) == (plan.name, plan.uuid)
    assert (facts.vcpus, facts.memory_mib) == (4, 8192)
    facts = domainxml.parse(domainxml.render(*case("passthrough-h100")))
    assert facts.devices == ("0000:41:00.0", "0001:c1:1f.7")
    facts = domainxml.parse(domainxml.render(*case("passthrough-siblings")))
    assert facts.devices == tuple(each.address for each in case("passthrough-siblings")[0].hostdevs)


def test_disks_of_every_type_are_read_back_as_they_were_planned():
    plan, versions = case("disk-types")
    rendered = domainxml.render(plan, versions)
    assert domainxml.disks(rendered) == plan.disks
    assert domainxml.disk_files(rendered) == {each.path for each in plan.disks}
