"""A dump made convenient: what the store holds, and what is on each host. Plain look-ups only."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from xml.etree import ElementTree

Row = dict[str, Any]
Dump = Mapping[str, Any]

MARK = "{https://vgpumgr.dev/v1}"
OFF = frozenset({"shutoff", "shut off", "crashed"})
# An allocation that holds its units.
HELD = frozenset({"reserved", "active", "orphaned"})


@dataclass(frozen=True, slots=True)
class Domain:
    """A domain, and whose: ``vm_id`` is empty for a foreign one."""

    host: str
    name: str
    uuid: str
    state: str
    persistent: bool
    autostart: bool
    devices: tuple[str, ...]
    fleet: str
    vm_id: str
    allocations: tuple[str, ...]
    xml: str

    @property
    def is_off(self) -> bool:
        return self.state in OFF


@dataclass(frozen=True)
class HostSeen:
    """One host that could be read."""

    name: str
    raw: Mapping[str, Any]

    @cached_property
    def probe(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.raw["probe"]
        return found

    @cached_property
    def unknown(self) -> frozenset[str]:
        """Parts that the helper could not read."""
        return frozenset(each["part"] for each in self.probe.get("unknown", ()))

    @cached_property
    def domains(self) -> tuple[Domain, ...]:
        return tuple(_domain(self.name, each) for each in self.raw["domains"])

    @cached_property
    def volumes(self) -> frozenset[tuple[str, str]]:
        return frozenset((pool, name) for pool, name in self.raw["volumes"])

    @cached_property
    def shared_pools(self) -> frozenset[str]:
        """Storage pools that other hosts see too."""
        return frozenset(self.raw.get("shared_pools", ()))

    @cached_property
    def claims(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(self.probe["claims"])

    @cached_property
    def mdevs(self) -> dict[str, Mapping[str, Any]]:
        return {each["uuid"]: each for each in self.probe["mdevs"]}

    @cached_property
    def mdev_types(self) -> dict[tuple[str, str], Mapping[str, Any]]:
        """The types of each parent, also of one that has the same as another."""
        own = {each["name"]: each.get("types") for each in self.probe["parents"]}
        return {
            (each["name"], kind["id"]): kind
            for each in self.probe["parents"]
            for kind in own[each.get("types_of") or each["name"]] or ()
        }

    @cached_property
    def functions(self) -> dict[str, Mapping[str, Any]]:
        """Every PCI function that the probe tells of, VFs and siblings included."""
        return dict(self._functions())

    def _functions(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for device in self.probe["devices"]:
            yield device["address"], device
            for sibling in device.get("siblings") or ():
                yield sibling["address"], sibling
            for vf in (device.get("sriov") or {}).get("vfs") or ():
                yield vf["address"], vf

    @cached_property
    def vgpus(self) -> dict[str, int]:
        """Type ids of VFs that carry a vGPU."""
        found = {
            address: (function.get("vgpu") or {}).get("type")
            for address, function in self.functions.items()
        }
        return {address: kind for address, kind in found.items() if kind}

    @cached_property
    def bound(self) -> frozenset[str]:
        """Functions on vfio-pci."""
        return frozenset(a for a, f in self.functions.items() if f.get("driver") == "vfio-pci")

    @cached_property
    def instances(self) -> frozenset[tuple[str, int, int]]:
        """GPU instances: the GPU's address, the profile's id, the start."""
        return frozenset(
            (gpu["address"], each["profile_id"], each["start"])
            for gpu in (self.probe.get("nvml") or {}).get("gpus") or ()
            for each in (gpu.get("mig") or {}).get("instances") or ()
        )

    @cached_property
    def partitions(self) -> frozenset[int]:
        """NVSwitch partitions that are active."""
        fabric = self.probe.get("fabric") or {}
        return frozenset(each["id"] for each in fabric.get("partitions") or () if each["active"])


@dataclass(frozen=True)
class StoreSeen:
    """The store's rows, decoded."""

    rows: Mapping[str, list[Row]]

    @cached_property
    def fleet(self) -> str:
        return str(self.rows["meta"][0]["fleet_id"])

    @cached_property
    def hosts(self) -> frozenset[str]:
        """Hosts that are enrolled."""
        return frozenset(each["name"] for each in self.rows["host"] if each["removed_at"] is None)

    @cached_property
    def vms(self) -> dict[str, Row]:
        """VMs by their id, deleted ones too."""
        return {each["id"]: each for each in self.rows["vm"]}

    @cached_property
    def allocations(self) -> dict[str, Row]:
        """Allocations that hold units, by their id."""
        found = {}
        for row in self.rows["allocation"]:
            if row["released_at"] is None:
                lists = {name: json.loads(row[name]) for name in ("slots", "companions", "extra")}
                found[row["id"]] = {**row, **lists}
        return found

    @cached_property
    def tasks(self) -> dict[str, Row]:
        """Tasks with their steps in order."""
        steps: dict[str, list[Row]] = {}
        for row in sorted(self.rows["step"], key=lambda each: each["seq"]):
            steps.setdefault(row["task"], []).append(row)
        return {
            each["id"]: {**each, "steps": steps.get(each["id"], [])} for each in self.rows["task"]
        }

    def on(self, host: str) -> dict[str, Row]:
        """The allocations that hold units on a host."""
        return {key: each for key, each in self.allocations.items() if each["host"] == host}


@dataclass(frozen=True)
class Seen:
    """A whole dump."""

    dump: Dump
    store: StoreSeen = field(init=False)
    hosts: dict[str, HostSeen] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "store", StoreSeen(self.dump["store"]))
        hosts = {name: HostSeen(name, raw) for name, raw in self.dump["hosts"].items() if raw}
        object.__setattr__(self, "hosts", hosts)

    @cached_property
    def watch(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.dump.get("watch") or {}
        return found

    def is_ours(self, domain: Domain) -> bool:
        """Does it carry this fleet's mark?"""
        return bool(domain.vm_id) and domain.fleet == self.store.fleet


def _domain(host: str, raw: Mapping[str, Any]) -> Domain:
    tree = ElementTree.fromstring(raw["xml"])
    mark = tree.find(f"metadata/{MARK}vm")
    return Domain(
        host=host,
        name=raw["name"],
        uuid=raw["uuid"],
        state=raw["state"],
        persistent=raw["persistent"],
        autostart=raw["autostart"],
        devices=tuple(_devices(tree)),
        fleet=mark.get("fleet", "") if mark is not None else "",
        vm_id=mark.get("id", "") if mark is not None else "",
        allocations=tuple(each.get("id", "") for each in mark.iterfind(f"{MARK}allocation"))
        if mark is not None
        else (),
        xml=raw["xml"],
    )


def _devices(tree: ElementTree.Element) -> Iterator[str]:
    """mdev UUIDs and PCI addresses of the host devices."""
    for hostdev in tree.iterfind("devices/hostdev"):
        address = hostdev.find("source/address")
        if address is None:
            continue
        if hostdev.get("type") == "mdev":
            yield address.get("uuid", "")
        elif hostdev.get("type") == "pci":
            parts = [
                int(address.get(key, "0"), 16) for key in ("domain", "bus", "slot", "function")
            ]
            yield "{:04x}:{:02x}:{:02x}.{:x}".format(*parts)
