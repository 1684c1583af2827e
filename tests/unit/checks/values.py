"""A host that is well in every respect, as the checks see it."""

from __future__ import annotations

from vgpumgr.model.examination import Bar, Examination, HostSetup, UnitState
from vgpumgr.model.gpu import GpuFacts, VendorVgpu, VfFacts
from vgpumgr.model.host import HostFacts, HostRecord, StoragePool, Versions

GPU, VF, RULE = "0000:41:00.0", "0000:41:00.4", "(root) NOPASSWD: HELPER"
GIB = 1 << 30
NO_BAR = Bar(0, 0, 0)
PLACED = (Bar(0xD0000000, 0xD0FFFFFF, 0x40200), *[NO_BAR] * 6, Bar(1 << 45, 1 << 46, 0x14220C))
WELL = UnitState(load="loaded", enabled="enabled", active="active", result="success")
UNITS = {"vgpumgr-restore.service": WELL, "libvirtd.socket": WELL}

NO_VGPU = VendorVgpu(creatable=(), type_id=0)
RECORD = HostRecord(name="h1", address="root@h1")
A40 = GpuFacts(
    device=GPU,
    path="",
    model="A40",
    vendor_device="10de:2235",
    driver="nvidia",
    iommu_group=12,
    group_devices=(GPU, "0000:41:00.1"),
    siblings=("0000:41:00.1",),
    sriov_total=32,
    vfs=(VfFacts(number=0, address=VF, driver="nvidia", vendor=NO_VGPU),),
)
POOL = StoragePool(
    name="default", kind="dir", path="/pool", capacity_bytes=100 * GIB, available_bytes=50 * GIB
)
FACTS = HostFacts(
    host="h1",
    boot_id="b",
    hostname="h1",
    versions=Versions(
        kernel="6.12.43+deb13-amd64", libvirt="11.3.0", qemu="10.0.2", driver="580.105.06"
    ),
    cpus=8,
    memory_mib=64000,
    iommu=True,
    kvm=True,
    gpus=(A40,),
    pools=(POOL,),
)
SEEN = HostSetup(
    helper="2",
    installed="2",
    user="gpuadm",
    now=1000.0,
    synchronised=True,
    kernel_line=("ro", "intel_iommu=on"),
    acpi_tables=("APIC", "DMAR"),
    iommus=("dmar0",),
    iommu_groups=14,
    intel_ecap={"dmar0": 0xF020DF},
    remapping=True,
    unsafe_interrupts=False,
    modules=("kvm_intel", "nvidia"),
    available=("nouveau", "vfio_pci"),
    blacklisted=("nouveau",),
    guest_of="",
    nested=True,
    sudo_rules=("(ALL : ALL) ALL", RULE),
    units=UNITS,
    pools_at_boot=("default",),
    uefi=True,
    secure_boot=False,
    bars={GPU: PLACED},
)
HEALTHY = Examination(
    record=RECORD,
    facts=FACTS,
    seen=SEEN,
    helper_version="2",
    sudo_rule=RULE,
    clock_offset_s=0.2,
    clock_within_s=0.1,
)
