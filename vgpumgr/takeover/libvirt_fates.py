"""Elements of a domain of which nothing more is read: what becomes of each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

CONTAINERS = frozenset(
    {
        *("clock", "cpu", "cputune", "features", "memoryBacking", "metadata", "numatune", "os"),
        *("pm", "sysinfo"),
    }
)
"""Elements whose parts are named one by one."""

EMPTY_TPM = "an empty TPM 2.0: the old one's state is lost (BitLocker asks for its recovery key)"
_FOLLOWS = "it follows from the VM's devices"
_GUEST = "as every VM has it"

KEPT: Mapping[str, str] = MappingProxyType(
    {
        "name": "the VM's name, in lower-case letters, digits and hyphens",
        "memory": "the VM's memory",
        "vcpu": "the VM's vCPUs",
        "features/acpi": "ACPI",
        "features/apic": "APIC",
        "os/firmware": "the firmware",
        "os/type": "a PC of 64 bits; it is a q35",
        "rng": "every VM has virtio random numbers",
        "serial": "the serial line of vgpumgr vm console",
    }
)

CHANGED: Mapping[str, str] = MappingProxyType(
    {
        "clock/timer": _GUEST,
        "console": "the serial line of vgpumgr vm console",
        "controller": _FOLLOWS,
        "currentMemory": "all of its memory",
        "emulator": "the host's own QEMU",
        "graphics": "a screen over VNC, for vgpumgr vm connect",
        "input": "a tablet comes with the screen",
        "memballoon": _FOLLOWS,
        "on_crash": _GUEST,
        "on_poweroff": _GUEST,
        "on_reboot": _GUEST,
        "os/boot": "boots from its first disk",
        "os/loader": "the firmware that the host's descriptors name",
        "pm/suspend-to-disk": _GUEST,
        "pm/suspend-to-mem": _GUEST,
        "resource": "the host's own cgroup of machines",
        "seclabel": "the labels that the host gives",
        "sound": "an ICH9 sound card, which a VNC viewer can play",
        "tpm": EMPTY_TPM,
        "video": _FOLLOWS,
        "watchdog": "the watchdog of q35, which resets a guest that hangs",
        **{
            f"features/{each}": _GUEST
            for each in ("gic", "hyperv", "ioapic", "kvm", "pae", "pmu", "smm", "vmport", "hap")
        },
    }
)

_NO_KEY = "no key for it"

LOST: Mapping[str, str] = MappingProxyType(
    {
        "audio": "how the old screen played sound",
        "blkiotune": "limits are said for each disk",
        "channel": "no channel but the guest agent's",
        "commandline": "arguments of QEMU's own are never carried over",
        "cputune/emulatorpin": "placement chooses the CPUs; pin_cpus: true pins them",
        "cputune/vcpupin": "placement chooses the CPUs; pin_cpus: true pins them",
        "description": _NO_KEY,
        "filesystem": "no folder of the host",
        "genid": "no generation id",
        "hostdev": "no device of the host but GPU parts",
        "hub": "no USB hub",
        "iommu": "no IOMMU in the guest",
        "iothreads": "no threads of their own for disks",
        "launchSecurity": "the guest's memory is not encrypted",
        "lease": "no lease of a lock manager",
        "maxMemory": "all of its memory is there from the start",
        "memoryBacking/access": _NO_KEY,
        "memoryBacking/allocation": _NO_KEY,
        "memoryBacking/locked": _NO_KEY,
        "memoryBacking/nosharepages": _NO_KEY,
        "memoryBacking/source": _NO_KEY,
        "numatune/memnode": "the guest's NUMA nodes follow from where it is placed",
        "numatune/memory": "placement finds one NUMA node for the VM and its GPU",
        "nvram": _NO_KEY,
        "os/bios": _NO_KEY,
        "os/bootmenu": _NO_KEY,
        "os/cmdline": "no kernel of the host's",
        "os/initrd": "no kernel of the host's",
        "os/kernel": "no kernel of the host's",
        "os/nvram": "EFI variables: the firmware finds the boot loader by its usual path",
        "os/smbios": "the machine names no manufacturer, product or serial number",
        "panic": "no panic device",
        "parallel": "no parallel port",
        "perf": _NO_KEY,
        "redirdev": "no USB redirection",
        "redirfilter": "no USB redirection",
        "shmem": "no memory is shared between VMs",
        "smartcard": "no smart card",
        "sysinfo/baseBoard": "the machine names no manufacturer, product or serial number",
        "sysinfo/bios": "the machine names no manufacturer, product or serial number",
        "sysinfo/chassis": "the machine names no manufacturer, product or serial number",
        "sysinfo/system": "the machine names no manufacturer, product or serial number",
        "title": _NO_KEY,
        "vcpus": "all vCPUs are there from the start",
        "vsock": "no socket to the host",
    }
)
