"""``kind: Flavour``: a size of VMs by name, and the documents that ask for one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import ConfigDict, Field

from vgpumgr.model.flavour import Flavour
from vgpumgr.spec.fields import Key, Memory, Name, Strict
from vgpumgr.spec.spec_file import SpecFindings, YamlTree, did_you_mean
from vgpumgr.spec.vm_devices import DiskModel
from vgpumgr.spec.vm_document import MAX_GPUS, GpuModel, check_gpus

KIND = "Flavour"
_KEYS = ("vcpus", "memory", "gpus", "disks")
_ASKING = frozenset({"VM", "Pool"})


FLAVOUR_KEYS: Mapping[str, Key] = {
    "apiVersion": Key("The version of the format.", "apiVersion: vgpumgr/v1"),
    "kind": Key("The kind of the document.", "kind: Flavour"),
    "name": Key("The flavour's name: at most 63 small letters, digits and hyphens.", "name: small"),
    "vcpus": Key("The number of vCPUs.", "vcpus: 8", "vCPUs"),
    "memory": Key("The memory of the VM.", "memory: 16GiB"),
    "gpus": Key("The GPU parts of the VM.", "gpus: [{profile: A40-8Q}]"),
    "disks": Key("The VM's disks.", "disks: [{size: 20GiB}]"),
    "class": Key(
        "The hosts that its VMs may run on: those whose label `class` says so.", "class: gold"
    ),
}


class FlavourModel(Strict):
    """A size of VMs by name: what files of VMs and pools that ask for it do not say themselves."""

    model_config = ConfigDict(populate_by_name=True)

    api_version: Literal["vgpumgr/v1"] = Field(alias="apiVersion")
    kind: Literal["Flavour"]
    name: Name
    vcpus: int | None = Field(default=None, ge=1, le=512)
    memory: Memory | None = None
    gpus: list[GpuModel] | None = Field(default=None, max_length=MAX_GPUS)
    disks: list[DiskModel] | None = Field(default=None, max_length=16)
    host_class: Name | None = Field(default=None, alias="class")

    def value(self, written: Mapping[str, Any]) -> Flavour:
        """The flavour in the model's words, its keys as they are ``written``."""
        check_gpus(self.gpus or [], display=False)
        keys = {key: written[key] for key in _KEYS if written.get(key) is not None}
        return Flavour(name=self.name, keys=keys, host_class=self.host_class or "")


def fill(tree: YamlTree, known: Mapping[str, Flavour], findings: SpecFindings) -> None:
    """Give a document of a VM or pool what its flavour says; ``findings`` get an unknown one."""
    data = tree.data
    if not isinstance(data, dict) or data.get("kind") not in _ASKING:
        return
    name = data.get("flavour")
    if not isinstance(name, str):
        return  # none, or what the model says is wrong
    if name in known:
        tree.data = known[name].filled(data)
        return
    said = ", ".join(sorted(known)) or "none"
    message = f"no flavour {name}: known are {said}{did_you_mean(name, known)}"
    findings.add(tree.value_mark(("flavour",)), message, ("flavour",))


def first(found: Iterable[YamlTree]) -> list[YamlTree]:
    """The documents, flavours before what asks for them."""
    return sorted(found, key=lambda tree: not _is_flavour(tree))


def _is_flavour(tree: YamlTree) -> bool:
    return isinstance(tree.data, dict) and tree.data.get("kind") == KIND
