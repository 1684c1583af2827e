"""Life cycles on virtual functions: vendor-specific VFs, plain VFs, mdevs in GPU instances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from vgpumgr import gpu
from vgpumgr.model.allocation import Allocation, InstancePart
from vgpumgr.model.domain import PciHostdev
from vgpumgr.model.errors import Conflict
from vgpumgr.model.operation import Differs, InState, Unknown

PF, VF = "0000:41:00.0", "0000:41:00.4"
VGPU = Allocation(
    id="alloc-1",
    vm_id="vm-1",
    vm="web",
    host="h1",
    gpu="gpu-1",
    profile="L40S-8Q",
    framework="vfio-vf",
    device=VF,
    slots=tuple(range(8)),
    type_id="1152",
    vf=0,
)
INSTANCE = InstancePart(gpu=PF, profile="1g.10gb", profile_id=19, start=2, size=1)
IN_INSTANCE = replace(VGPU, profile="1g.10gb", type_id="699", instance=INSTANCE)
PLACED = replace(VGPU, placement_id=24)
PLAIN = replace(VGPU, framework="pci-vf", profile="MI300X-1of8", type_id="")


@dataclass
class OneVf:
    """The helper's verbs of one VF, as docs/helper-protocol.md has them."""

    there: bool = True
    type: int = 0
    driver: str = "amdgpu"
    instance: dict[str, int] | None = None
    placement_id: int | None = None
    claim: dict[str, Any] | None = None
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def call(self, verb: str, args: Mapping[str, object]) -> dict[str, object]:
        self.calls.append((verb, dict(args)))
        return dict(getattr(self, f"_{verb}")(**{**args, "with_": args.get("with", [])}))

    def _vgpu_create(self, type: int, claim: dict[str, Any], **more: Any) -> dict[str, object]:
        self._mine(claim)
        self.type, self.claim = type, claim
        self.instance = (
            more["instance"] and {"id": 9, "start": 2, "size": 1} if "instance" in more else None
        )
        self.placement_id = more.get("placement_id", 0)
        return self._vgpu_look()

    def _vgpu_look(self, **_: Any) -> dict[str, object]:
        return {
            "exists": self.there,
            "type": self.type if self.there else None,
            "instance": self.instance,
            "placement_id": self.placement_id,
            "claim": self.claim,
        }

    def _vgpu_release(self, claim: dict[str, Any], **_: Any) -> dict[str, object]:
        self._mine(claim)
        self.type, self.claim, self.instance, self.placement_id = 0, None, None, None
        return {"type": 0}

    def _vfio_bind(self, claim: dict[str, Any], **_: Any) -> dict[str, object]:
        self._mine(claim)
        self.driver, self.claim = "vfio-pci", claim
        return {}

    def _vfio_look(self, **_: Any) -> dict[str, object]:
        return {"exists": self.there, "driver": self.driver, "claim": self.claim}

    def _vfio_release(self, claim: dict[str, Any], **_: Any) -> dict[str, object]:
        self._mine(claim)
        self.driver, self.claim = "amdgpu", None
        return {}

    def _mine(self, claim: dict[str, Any]) -> None:
        if self.claim is not None and self.claim["allocation"] != claim["allocation"]:
            raise Conflict("claimed otherwise")


CASES = pytest.mark.parametrize(
    "allocation", [VGPU, IN_INSTANCE, PLACED, PLAIN], ids=["vgpu", "mig", "mixed-size", "plain"]
)


@CASES
def test_realise_look_release(allocation: Allocation) -> None:
    vf, framework = OneVf(), gpu.framework(allocation.framework)
    assert isinstance(framework.look(vf, allocation), Differs)
    assert not framework.holds(vf, allocation)
    framework.realise(vf, allocation)
    framework.realise(vf, allocation)
    assert framework.look(vf, allocation) == InState()
    assert framework.holds(vf, allocation)
    framework.release(vf, allocation)
    assert isinstance(framework.look(vf, allocation), Differs)
    assert (vf.type, vf.driver, vf.claim) == (0, "amdgpu", None)


@CASES
def test_a_vf_under_another_claim_is_not_ours(allocation: Allocation) -> None:
    vf, framework = OneVf(), gpu.framework(allocation.framework)
    framework.realise(vf, replace(allocation, id="alloc-2"))
    assert not framework.holds(vf, allocation)
    for verb in (framework.look, framework.realise, framework.release):
        with pytest.raises(Conflict):
            verb(vf, allocation)


@CASES
def test_a_vf_that_went_away_differs_and_its_claim_is_still_held(allocation: Allocation) -> None:
    vf, framework = OneVf(), gpu.framework(allocation.framework)
    framework.realise(vf, allocation)
    vf.there = False
    assert "not on the bus" in str(framework.look(vf, allocation))
    assert framework.holds(vf, allocation)


def test_a_type_of_another_number_differs() -> None:
    vf, framework = OneVf(), gpu.framework("vfio-vf")
    framework.realise(vf, VGPU)
    vf.type = 1150
    assert framework.look(vf, VGPU) == Differs(f"VF {VF} carries type 1150")


@pytest.mark.parametrize(
    ("allocation", "seen", "answer"),
    [
        (IN_INSTANCE, {"instance": {"id": 3, "start": 4, "size": 1}}, Differs),
        (IN_INSTANCE, {"instance": None}, Unknown),
        (PLACED, {"placement_id": 0}, Differs),
        (PLACED, {"placement_id": None}, Unknown),
        (VGPU, {"placement_id": None}, InState),
    ],
)
def test_where_the_driver_put_it_is_read_back(
    allocation: Allocation, seen: dict[str, Any], answer: type
) -> None:
    vf, framework = OneVf(), gpu.framework("vfio-vf")
    framework.realise(vf, allocation)
    for name, value in seen.items():
        setattr(vf, name, value)
    assert isinstance(framework.look(vf, allocation), answer)


def test_what_was_chosen_is_told_and_nothing_else() -> None:
    vf = OneVf()
    claim = {"allocation": "alloc-1", "generation": 1, "vm": "web"}
    gpu.framework("vfio-vf").realise(vf, VGPU)
    assert vf.calls[-1] == ("vgpu_create", {"vf": VF, "type": 1152, "claim": claim})
    chosen = replace(IN_INSTANCE, placement_id=0, frame_rate_limiter=False)
    gpu.framework("vfio-vf").realise(vf, chosen)
    part = {"gpu": PF, "profile_id": 19, "start": 2, "size": 1, "make": True}
    assert vf.calls[-1][1] == {
        "vf": VF,
        "type": 699,
        "claim": claim,
        "instance": part,
        "placement_id": 0,
        "params": {"frame_rate_limiter": 0},
    }


def test_an_mdev_is_told_its_instance_too() -> None:
    class Noting:
        args: dict[str, object]

        def call(self, verb: str, args: Mapping[str, object]) -> dict[str, object]:
            self.args = {"verb": verb, **args}
            return {}

    helper = Noting()
    stays = replace(INSTANCE, make=False)
    mdev = replace(IN_INSTANCE, framework="mdev", device="uuid-1", parent=VF, instance=stays)
    gpu.framework("mdev").realise(helper, replace(mdev, frame_rate_limiter=True))
    assert helper.args == {
        "verb": "mdev_create",
        "parent": VF,
        "type": "699",
        "uuid": "uuid-1",
        "claim": {"allocation": "alloc-1", "generation": 1, "vm": "web"},
        "instance": {"gpu": PF, "profile_id": 19, "start": 2, "size": 1, "make": False},
        "params": {"frame_rate_limiter": 1},
    }


def test_a_vf_is_a_pci_hostdev_and_only_a_vgpu_shows() -> None:
    assert gpu.framework("vfio-vf").describe(VGPU, display=True) == (
        PciHostdev(address=VF, display=True),
    )
    assert gpu.framework("pci-vf").describe(PLAIN, display=True) == (PciHostdev(address=VF),)
