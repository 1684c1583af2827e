"""libvirt's domains and storage on a fake host."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vgpumgr import domainxml
from vgpumgr.domainxml.xml import untrusted
from vgpumgr.model.domain import DomainFacts, DomainState, VolumeFacts
from vgpumgr.model.errors import Conflict, HostRefused, NotFound
from vgpumgr.model.host import StoragePool

if TYPE_CHECKING:
    from tests.fakes import FakeHost


@dataclass
class FakeDomains:
    """libvirt's domains of the host."""

    host: FakeHost

    def list(self) -> tuple[DomainFacts, ...]:
        return tuple(self.host.domains_by_name.values())

    def look(self, name: str) -> DomainFacts | None:
        found = self.host.call("look", name, effect=lambda: self.host.domains_by_name.get(name))
        return found if isinstance(found, DomainFacts) else None

    def xml(self, name: str) -> str:
        if name not in self.host.xml_by_name:
            raise NotFound(f"there is no domain {name}")
        return self.host.xml_by_name[name]

    def define(self, xml: str) -> str:
        return str(self.host.call("define", xml, effect=lambda: self._define(xml)))

    def start(self, name: str) -> None:
        self.host.call("start", name, effect=lambda: self._start(name))

    def shutdown(self, name: str) -> None:
        ignored = self.host.guests_ignore_acpi
        self.host.call("shutdown", name, effect=lambda: ignored or self._off(name))

    def reboot(self, name: str) -> None:
        self.host.call("reboot", name, effect=lambda: self._known(name))

    def destroy(self, name: str) -> None:
        self.host.call("destroy", name, effect=lambda: self._off(name))

    def undefine(self, name: str) -> None:
        self.host.call("undefine", name, effect=lambda: self._forget(name))

    def set_autostart(self, name: str, on: bool) -> None:
        self.host.call("autostart", name, on, effect=lambda: self._change(name, autostart=on))

    def _define(self, xml: str) -> str:
        facts = domainxml.parse(xml)
        before = self.host.domains_by_name.get(facts.name)
        if before is not None:
            facts = replace(facts, state=before.state, autostart=before.autostart)
        self.host.domains_by_name[facts.name] = facts
        self.host.xml_by_name[facts.name] = xml
        return xml

    def _start(self, name: str) -> None:
        for device in self._known(name).devices:
            if device not in self.host.mdevs and self.host.drivers.get(device) != "vfio-pci":
                raise HostRefused(f"device {device} of {name} is not there")
        for path in _disks(self.host.xml_by_name[name]):
            if path not in {volume.path for volume in self.host.volumes.values()}:
                raise HostRefused(f"cannot open {path}")
        self._change(name, state=DomainState.RUNNING)

    def _off(self, name: str) -> None:
        self._known(name)
        self._change(name, state=DomainState.SHUTOFF)

    def _forget(self, name: str) -> None:
        self.host.domains_by_name.pop(name, None)
        self.host.xml_by_name.pop(name, None)

    def _known(self, name: str) -> DomainFacts:
        if name not in self.host.domains_by_name:
            raise NotFound(f"there is no domain {name}")
        return self.host.domains_by_name[name]

    def _change(self, name: str, **changes: object) -> None:
        self.host.domains_by_name[name] = replace(self._known(name), **changes)  # type: ignore[arg-type]


def _disks(xml: str) -> tuple[str, ...]:
    found = untrusted(xml, "domain").iterfind("devices/disk/source")
    return tuple(str(each.get("file")) for each in found)


@dataclass
class FakeStorage:
    """libvirt's storage of the host."""

    host: FakeHost

    def pools(self) -> tuple[StoragePool, ...]:
        return self.host.probe().pools

    def look(self, pool: str, volume: str) -> VolumeFacts | None:
        effect = self.host.volumes.get
        found = self.host.call("volume_look", volume, effect=lambda: effect((pool, volume)))
        return found if isinstance(found, VolumeFacts) else None

    def create(self, pool: str, xml: str, *, copy_from: str | None = None) -> VolumeFacts:
        found = self.host.call("volume_create", pool, xml, effect=lambda: self._create(pool, xml))
        assert isinstance(found, VolumeFacts)
        return found

    def upload(self, pool: str, volume: str, data: bytes) -> None:
        effect = self.host.uploads.update
        self.host.call("upload", volume, effect=lambda: effect({volume: data}))

    def delete(self, pool: str, volume: str) -> None:
        self.host.call("volume_delete", volume, effect=lambda: self._delete(pool, volume))

    def _create(self, pool: str, xml: str) -> VolumeFacts:
        root = untrusted(xml, "volume")
        name, capacity = root.findtext("name") or "", int(root.findtext("capacity") or 0)
        if (pool, name) in self.host.volumes:
            raise Conflict(f"volume {name} exists")
        kind = root.find("target/format")
        facts = VolumeFacts(
            pool=pool,
            name=name,
            path=f"/pools/{pool}/{name}",
            capacity_bytes=capacity,
            format=str(kind.get("type")) if kind is not None else "",
        )
        self.host.volumes[pool, name] = facts
        return facts

    def _delete(self, pool: str, volume: str) -> None:
        self.host.volumes.pop((pool, volume), None)
        self.host.uploads.pop(volume, None)
