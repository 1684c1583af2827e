"""The helper's verbs on a fake host, as docs/helper-protocol.md has them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.model.domain import DomainState
from vgpumgr.model.errors import Conflict, HostRefused, InUse, NotFound

if TYPE_CHECKING:
    from tests.fakes import FakeHost


@dataclass
class FakeHelper:
    """The helper's verbs as docs/helper-protocol.md has them."""

    host: FakeHost

    def call(self, verb: str, args: Mapping[str, object]) -> dict[str, object]:
        effect = getattr(self, f"_{verb}")
        answer = self.host.call(verb, dict(args), effect=lambda: effect(**_renamed(args)))
        return answer if isinstance(answer, dict) else {}

    def _mdev_create(
        self, parent: str, type: str, uuid: str, claim: Mapping[str, object]
    ) -> dict[str, object]:
        host = self.host
        self._check(f"mdev-{uuid}", claim, must=uuid in host.mdevs)
        if uuid not in host.mdevs:
            found = host.parent(parent)
            if found is None:
                raise NotFound(f"no mdev parent {parent}")
            if host.available(found, type) < 1:
                raise HostRefused(f"no {type} is left on {parent}", errno_name="ENOSPC")
            self._put(f"mdev-{uuid}", claim)
            host.mdevs[uuid] = (parent, type)
            host.received.discard(uuid)
        return self._mdev_look(uuid)

    def _mdev_look(self, uuid: str) -> dict[str, object]:
        parent, kind = self.host.mdevs.get(uuid, (None, None))
        claim = self.host.claims.get(f"mdev-{uuid}")
        return {"exists": parent is not None, "parent": parent, "type": kind, "claim": claim}

    def _mdev_remove(self, uuid: str, claim: Mapping[str, object]) -> dict[str, object]:
        host = self.host
        self._check(f"mdev-{uuid}", claim, must=uuid in host.mdevs)
        _refuse_busy(host, uuid)
        host.mdevs.pop(uuid, None)
        host.claims.pop(f"mdev-{uuid}", None)
        return {"exists": False}

    def _vfio_bind(
        self, address: str, companions: Iterable[str], claim: Mapping[str, object]
    ) -> dict[str, object]:
        host = self.host
        self._check(f"pci-{address}", claim)
        if any(parent == address for parent, _ in host.mdevs.values()):
            raise InUse(f"{address} is in use")
        self._put(f"pci-{address}", claim)
        for function in (address, *companions):
            host.drivers[function] = "vfio-pci"
        return {"driver": "vfio-pci"}

    def _vfio_look(self, address: str) -> dict[str, object]:
        known = address in self.host.drivers
        driver = self.host.drivers.get(address)
        claim = self.host.claims.get(f"pci-{address}")
        return {"exists": known, "driver": driver, "claim": claim}

    def _vfio_release(self, address: str, claim: Mapping[str, object]) -> dict[str, object]:
        host = self.host
        self._check(f"pci-{address}", claim, must=host.drivers.get(address) == "vfio-pci")
        _refuse_busy(host, address)
        if f"pci-{address}" in host.claims:
            host.drivers[address] = "nvidia"
            for gpu in host.gpus:
                if gpu.device == address:
                    host.drivers |= {each: "snd" for each in gpu.group_devices if each != address}
        host.claims.pop(f"pci-{address}", None)
        return {"driver": host.drivers.get(address)}

    def _image_inspect(self, path: str, pool_path: str) -> dict[str, object]:
        found = self.host.images.get(path.removeprefix(f"{pool_path}/"))
        volume = next((each for each in self.host.volumes.values() if each.path == path), None)
        if found is None and volume is not None:
            found = {"format": volume.format, "backing": volume.backing_path}
        if found is None:
            raise NotFound(f"no file {path}")
        return {"format": "qcow2", "backing": None, "data_file": None, **found}

    def _overlay_dissolve(self, path: str, pool_path: str, below: str = "") -> dict[str, object]:
        if self._image_inspect(path, pool_path)["backing"] is None:
            raise HostRefused(f"{path} is laid over nothing")
        self.host.lay_over(path, below)
        return {"backing": below or None}

    def _file_digest(self, path: str, pool_path: str) -> dict[str, object]:
        """Equal where the same was uploaded or copied; nothing else is modelled."""
        name = path.removeprefix(f"{pool_path}/")
        found = {volume.path: volume for volume in self.host.volumes.values()}
        if path not in found:
            raise NotFound(f"no file {path}")
        content = self.host.uploads.get(name, b"")
        size = found[path].capacity_bytes
        return {"sha256": hashlib.sha256(content).hexdigest(), "bytes": size}

    def _check(self, unit: str, claim: Mapping[str, object], *, must: bool = False) -> None:
        found = self.host.claims.get(unit)
        if found is None and must:
            raise Conflict(f"{unit} carries no claim of ours")
        if found is not None and found["allocation"] != claim["allocation"]:
            raise Conflict(f"{unit} is claimed otherwise")

    def _put(self, unit: str, claim: Mapping[str, object]) -> None:
        self.host.claims[unit] = {**claim, "fleet": self.host.fleet}


def _renamed(args: Mapping[str, object]) -> dict[str, object]:
    return {("companions" if name == "with" else name): value for name, value in args.items()}


def _refuse_busy(host: FakeHost, device: str) -> None:
    for domain in host.domains_by_name.values():
        if device in domain.devices and domain.state is DomainState.RUNNING:
            raise InUse(f"{device} is in use by {domain.name}")
