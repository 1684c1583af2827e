"""Every verb's answer is checked before anybody goes by it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from vgpumgr.hosts.reached_host import ReachedHost
from vgpumgr.model.errors import OutcomeUnknown

CLAIM = {
    "unit": "mdev-1", "fleet": "f", "epoch": 1, "allocation": "a", "generation": 1, "vm": "v",
    "wanted": {"kind": "mdev"},
}  # fmt: skip
LAYOUT = {**CLAIM, "unit": "layout-x", "wanted": {"kind": "layout", "gpu": "0000:41:00.0"}}
DEVICE = {"address": "0000:41:00.0", "vendor": "10de", "device": "1eb8", "sriov": {"vfs": []}}
GOOD: dict[str, dict[str, Any]] = {
    "version": {"helper": "9", "python": "3.11.2"},
    "claims": {"claims": [CLAIM, LAYOUT]},
    "mdev_look": {"exists": True, "parent": "mtty", "type": "mtty-1", "iommu_group": 3,
                  "in_use": False, "claim": CLAIM},
    "vgpu_look": {"exists": True, "type": 557, "creatable": [557], "placement_id": None,
                  "instance": {"id": 1, "start": 0, "size": 1}, "claim": CLAIM},
    "vfio_look": {"exists": True, "driver": None, "driver_override": "", "iommu_group": 3,
                  "in_use": True, "claim": None},
    "gpu_look": {"device": DEVICE, "nvml": {"address": "0000:41:00.0", "memory_mib": 15360,
                 "mig": {"enabled": False, "pending": False}}, "unknown": []},
    "fabric_look": {"partitions": [{"id": 1, "active": False, "claim": None,
                                    "gpus": [{"physical_id": 1}]}]},
    "image_inspect": {"format": "qcow2", "virtual_bytes": 1 << 30, "backing": None},
    "file_digest": {"sha256": "0" * 64, "bytes": 3},
    "kvm_probe": {"kvm": True, "why": "booted"},
}  # fmt: skip


class Answering:
    """A helper with one answer."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self._answer = answer

    def call(self, verb: str, args: Mapping[str, object]) -> dict[str, Any]:
        return self._answer


def call(verb: str, answer: dict[str, Any]) -> dict[str, Any]:
    def nothing() -> Any:
        raise AssertionError("libvirt is not asked")

    return ReachedHost("h1", Answering(answer), nothing).helper.call(verb, {})


@pytest.mark.parametrize("verb", GOOD)
def test_an_answer_of_sense_is_passed_on(verb: str) -> None:
    assert call(verb, GOOD[verb]) == GOOD[verb]


@pytest.mark.parametrize(
    ("verb", "path", "value"),
    [
        ("version", "helper", 6),
        ("claims", "claims.0.epoch", 2**70),
        ("claims", "claims.0.generation", "1"),
        ("claims", "claims.0.wanted", {}),
        ("claims", "claims.0.vm", "\ud800"),
        ("claims", "claims.1.wanted.gpu", "../x"),
        ("mdev_look", "exists", None.__class__),
        ("mdev_look", "parent", 5),
        ("mdev_look", "claim", "mine"),
        ("vgpu_look", "type", -1),
        ("vgpu_look", "instance", {"start": 0}),
        ("vgpu_look", "creatable", ["557"]),
        ("vfio_look", "driver", ["vfio-pci"]),
        ("vfio_look", "iommu_group", 1e308),
        ("gpu_look", "device", []),
        ("gpu_look", "device.sriov", {"total": 16}),
        ("gpu_look", "device.address", "41"),
        ("gpu_look", "nvml.memory_mib", 10**4000),
        ("gpu_look", "nvml.scheduler", "whim"),
        ("gpu_look", "nvml.mig", {"pending": True}),
        ("gpu_look", "nvml.mig.instances",
         [{"id": 1, "profile_id": 19, "start": -5, "size": 1, "compute": []}]),
        ("gpu_look", "nvml.mig.instances",
         [{"id": 1, "profile_id": 19, "start": 0, "size": 1, "compute": None}]),
        ("gpu_look", "nvml.mig.instances", [{"id": 1, "profile_id": 19, "start": 0, "size": 1}]),
        ("fabric_look", "partitions", None.__class__),
        ("fabric_look", "partitions.0.id", True),
        ("fabric_look", "partitions.0.gpus.0.physical_id", 10**6),
        ("image_inspect", "format", None.__class__),
        ("image_inspect", "virtual_bytes", -1),
        ("image_inspect", "backing", {}),
        ("file_digest", "sha256", "short"),
        ("file_digest", "bytes", 2**63),
        ("kvm_probe", "kvm", "yes"),
    ],
)  # fmt: skip
def test_one_without_is_unknown_and_says_which_part(verb: str, path: str, value: object) -> None:
    answer = _with(GOOD[verb], path.split("."), value)
    with pytest.raises(OutcomeUnknown) as caught:
        call(verb, answer)
    assert "h1's helper cannot be understood" in caught.value.message
    assert "vgpumgr host upgrade h1" in caught.value.next


def _with(answer: Any, path: list[str], value: object) -> Any:
    """A copy with one part replaced; NoneType in the place of a value: the part is absent."""
    name, *rest = path
    if isinstance(answer, list):
        at = int(name)
        return [_with(x, rest, value) if n == at else x for n, x in enumerate(answer)]
    if rest:
        return {**answer, name: _with(answer[name], rest, value)}
    kept = {key: part for key, part in answer.items() if key != name}
    return kept if value is type(None) else {**kept, name: value}
