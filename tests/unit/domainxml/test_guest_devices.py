"""What every guest gets beside what was asked for: clocks, watchdog, balloon, free slots."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from lxml import etree

from tests.unit.domainxml.test_golden import case, define
from vgpumgr import domainxml
from vgpumgr.model.host import Versions


def rendered(name: str, libvirt: str = "9.0.0") -> etree._Element:
    plan, _ = case(name)
    return etree.fromstring(domainxml.render(plan, Versions(libvirt=libvirt, qemu="8.2.0")))


@pytest.mark.parametrize(
    "what",
    [
        "clock/timer[@name='rtc'][@tickpolicy='catchup']",
        "clock/timer[@name='pit'][@tickpolicy='delay']",
        "clock/timer[@name='hpet'][@present='no']",
        "features/vmport[@state='off']",
        "pm/suspend-to-mem[@enabled='no']",
        "pm/suspend-to-disk[@enabled='no']",
        "devices/rng[@model='virtio']/backend[@model='random']",
    ],
)
def test_a_modern_guest_has_it_on_any_libvirt(what: str) -> None:
    for libvirt in ("6.0.0", "9.0.0", "11.3.0", ""):
        assert rendered("mdev-desktop", libvirt).find(what) is not None, libvirt


@pytest.mark.parametrize(("libvirt", "there"), [("9.0.0", False), ("9.1.0", True), ("", False)])
def test_a_watchdog_where_libvirt_knows_the_one_of_q35(libvirt: str, there: bool) -> None:
    found = rendered("mdev-desktop", libvirt).find("devices/watchdog[@model='itco']")
    assert (found is not None and found.get("action") == "reset") is there


def test_a_balloon_where_no_device_pins_the_memory() -> None:
    def model(name: str) -> str | None:
        balloon = rendered(name).find("devices/memballoon")
        return None if balloon is None else balloon.get("model")

    assert (model("mdev-desktop"), model("passthrough-h100")) == ("none", "none")
    assert model("cloud-init") == "virtio"


def test_a_newer_watchdog_is_no_fault_of_an_older_schema_here() -> None:
    plan, _ = case("mdev-desktop")
    xml = domainxml.render(plan, Versions(libvirt="11.3.0", qemu="10.0.2"))
    assert "itco" in xml
    assert domainxml.validate(xml, libvirt="11.3.0").problems == ()


@pytest.mark.libvirtd
@pytest.mark.root
@pytest.mark.parametrize("name", ["mdev-desktop", "passthrough-siblings"])
def test_a_real_libvirt_leaves_slots_free_to_plug_into(name: str) -> None:
    plan, versions = case(name)
    if not Path("/dev/kvm").exists():
        plan = replace(plan, accelerator="tcg")
    [kept] = define([domainxml.render(plan, versions)])
    xml = etree.fromstring(kept)
    ports = xml.findall("devices/controller[@model='pcie-root-port']")
    buses = {int(port.get("index", "0")) for port in ports}
    used = {int(each.get("bus", "0"), 0) for each in xml.iterfind("devices/*/address[@type='pci']")}
    assert len(buses - used) >= 4
