"""What every process would else learn anew: catalogue, types, templates, SQL as text."""

from __future__ import annotations

from tests import sqltexts
from tests.faults.scenario import Place
from tests.simworld import host, vm
from vgpumgr.model.layout import VFS_MAX, GpuLayout
from vgpumgr.model.vm_devices import CloudInit, DiskSpec


def warm(url: str) -> None:
    """Make and delete a VM in this process, over an empty ledger; leaves no thread behind."""
    sqltexts.share()
    place = Place(url, (host("L40S"),))
    place.enrol("h1")
    place.cut(GpuLayout(vfs=VFS_MAX), "h1")
    disk, seed = DiskSpec(size_bytes=1 << 20), CloudInit(user_data="#cloud-config\n")
    place.apply(vm("desk", "L40S-8Q", disks=(disk,), cloud_init=seed))
    place.engine.delete(["desk"], keep_disks=False, force=True).raise_for_failure()
    place.close()
    place.hosts.close()
