"""The helper's answer to each verb, checked before it is used."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from vgpumgr.hosts.facts.gpu_facts import MOST_GROUP, MOST_TYPE_ID, gpus
from vgpumgr.hosts.facts.host_facts import claim_facts, fabric_facts
from vgpumgr.hosts.facts.typed_answer import TypedAnswer
from vgpumgr.model.ports import Helper

MOST_VLAN = 4095
_SHA256 = re.compile(r"[0-9a-f]{64}")


class CheckedHelper:
    """Fulfils ``ports.Helper``; an answer out of range or sense is OutcomeUnknown by its part."""

    def __init__(self, host: str, helper: Helper) -> None:
        self._host = host
        self._helper = helper

    def call(self, verb: str, args: Mapping[str, object]) -> dict[str, object]:
        """Call one verb, and check its answer."""
        result = self._helper.call(verb, args)
        check = _CHECKS.get(verb)
        if check is not None:
            check(TypedAnswer(result, host=self._host))
        return result


def _version(told: TypedAnswer) -> None:
    told.text("helper")


def _claim(told: TypedAnswer) -> None:
    claim = told.maybe_child("claim")
    if claim is not None:
        claim_facts(claim)


def _claims(told: TypedAnswer) -> None:
    for each in told.objects("claims"):
        each.need("unit", "fleet", "allocation", "generation", "vm", "wanted")
        claim = claim_facts(each)
        if claim.wanted.get("kind") == "layout":
            each.child("wanted").address("gpu")
        elif not isinstance(claim.wanted.get("kind"), str):
            raise each.nonsense("wanted", claim.wanted, "what kind of thing it is")


def _mdev_look(told: TypedAnswer) -> None:
    told.need("exists", "parent", "type")
    told.flag("exists")
    told.maybe_text("parent")
    told.maybe_text("type")
    told.maybe_number("iommu_group", most=MOST_GROUP)
    told.maybe_flag("in_use")
    _claim(told)


def _vgpu_look(told: TypedAnswer) -> None:
    told.need("exists", "type", "instance", "placement_id")
    told.flag("exists")
    told.maybe_number("type", most=MOST_TYPE_ID)
    told.maybe_number("placement_id", most=MOST_TYPE_ID)
    told.numbers("creatable", most=MOST_TYPE_ID)
    instance = told.maybe_child("instance")
    if instance is not None:
        instance.need("start", "size")
        for key in ("id", "start", "size"):
            instance.maybe_number(key, most=MOST_TYPE_ID)
    _claim(told)


def _vfio_look(told: TypedAnswer) -> None:
    told.need("exists", "driver")
    told.flag("exists")
    told.maybe_text("driver")
    told.maybe_text("driver_override")
    told.maybe_number("iommu_group", most=MOST_GROUP)
    told.maybe_flag("in_use")
    _claim(told)


def _nic_vf_look(told: TypedAnswer) -> None:
    told.need("exists")
    if told.flag("exists"):
        told.need("mac", "vlan", "trust", "spoof_check")
        told.text("mac")
        told.number("vlan", most=MOST_VLAN)
        told.maybe_flag("trust")
        told.maybe_flag("spoof_check")
    _claim(told)


def _gpu_look(told: TypedAnswer) -> None:
    """Check the look at a GPU by the rules for the same GPU in a probe."""
    device, nvml = told.maybe_child("device"), told.maybe_child("nvml")
    if device is not None and device.has("sriov"):
        device.child("sriov").need("vfs")
    mig = nvml.maybe_child("mig") if nvml is not None else None
    if mig is not None:
        mig.need("enabled", "pending")
        for instance in mig.objects("instances"):
            if not instance.has("compute"):
                raise instance.nonsense("compute", None, "a list")
    tuple(gpus(told.as_probe()))


def _fabric_look(told: TypedAnswer) -> None:
    told.need("partitions")
    fabric_facts(told)
    for each in told.objects("partitions"):
        _claim(each)


def _image_inspect(told: TypedAnswer) -> None:
    told.need("format")
    told.text("format")
    told.maybe_number("virtual_bytes")
    told.maybe_text("backing")
    told.maybe_text("backing_format")
    told.maybe_text("data_file")
    told.maybe_flag("encrypted")


def _file_digest(told: TypedAnswer) -> None:
    digest = told.text("sha256")
    if _SHA256.fullmatch(digest) is None:
        raise told.nonsense("sha256", digest, "64 hexadecimal digits")
    told.number("bytes")


def _rbd_look(told: TypedAnswer) -> None:
    told.need("parent")
    told.maybe_text("parent")


def _kvm_probe(told: TypedAnswer) -> None:
    told.flag("kvm")
    told.words("why")


# Probes, examinations and figures are checked as they are read; of other verbs no answer is used.
_CHECKS: Mapping[str, Callable[[TypedAnswer], None]] = {
    "version": _version,
    "claims": _claims,
    "mdev_look": _mdev_look,
    "vgpu_look": _vgpu_look,
    "vfio_look": _vfio_look,
    "nic_vf_look": _nic_vf_look,
    "gpu_look": _gpu_look,
    "fabric_look": _fabric_look,
    "image_inspect": _image_inspect,
    "file_digest": _file_digest,
    "rbd_look": _rbd_look,
    "rbd_flatten": _rbd_look,
    "kvm_probe": _kvm_probe,
}
