"""The file-backed disks of a domain, as it declares them."""

from __future__ import annotations

from vgpumgr.domainxml.xml import untrusted
from vgpumgr.model.domain import DomainDisk


def disks(xml: str) -> tuple[DomainDisk, ...]:
    """In their order; a disk that is no file has an empty path. ValueError for no domain."""
    found = []
    for disk in untrusted(xml, "domain").iterfind("devices/disk"):
        source, driver, target = (disk.find(tag) for tag in ("source", "driver", "target"))
        found.append(
            DomainDisk(
                path=source.get("file", "") if source is not None else "",
                format=driver.get("type", "raw") if driver is not None else "raw",
                target=target.get("dev", "") if target is not None else "",
                cdrom=disk.get("device") == "cdrom",
            )
        )
    return tuple(found)
