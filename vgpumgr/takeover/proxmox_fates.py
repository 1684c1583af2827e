"""Keys of Proxmox VE of which no value is read: what becomes of each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

SAME_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "numa": "placement finds one NUMA node for the VM and its GPU",
        "rng0": "every VM has virtio random numbers",
        "tablet": "a tablet comes with the screen",
    }
)

FIRST_BOOT = frozenset(
    {
        *("cicustom", "cipassword", "citype", "ciupgrade", "ciuser"),
        *("nameserver", "searchdomain", "sshkeys"),
    }
)

_OWN = "what that manager keeps for itself"
_NO_KEY = "no key for it"

# By the key, or by the key without its number.
LOST_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "affinity": "placement chooses the CPUs; pin_cpus: true pins them",
        "allow-ksm": _NO_KEY,
        "amd-sev": "the guest's memory is not encrypted",
        "args": "arguments of QEMU's own are never carried over",
        "autostart": "that manager ignores it, too",
        "cpulimit": "no limit on CPU time; cpu_shares is its weight",
        "delete": "changes that wait for the guest's next start there",
        "description": "the description: no key for it",
        "digest": _OWN,
        "freeze": _NO_KEY,
        "hookscript": "no script runs at its start and stop; webhooks tell of them",
        "hotplug": "what needs a stop is said by vgpumgr plan",
        "intel-tdx": "the guest's memory is not encrypted",
        "ivshmem": "no memory is shared between VMs",
        "keephugepages": _NO_KEY,
        "keyboard": "the viewer's keyboard is the guest's",
        "meta": _OWN,
        "migrate_downtime": _NO_KEY,
        "migrate_speed": "the host's migration: bandwidth is the limit",
        "numa": "the guest's NUMA nodes follow from where it is placed",
        "parallel": "no parallel port",
        "parent": "the snapshot that it came from stays there",
        "protection": "vm delete asks, and takes no running VM without --force",
        "reboot": _NO_KEY,
        "running-nets-host-mtu": _OWN,
        "runningcpu": _OWN,
        "runningmachine": _OWN,
        "serial": "one serial line, that of vgpumgr vm console",
        "shares": "no ballooning",
        "snaptime": _OWN,
        "spice_enhancements": "no SPICE: the screen is a VNC server's",
        "startdate": "the machine's clock is the host's",
        "startup": "VMs of a host start together",
        "tdf": "timers catch up by themselves",
        "unused": "a disk that no guest uses stays there",
        "usb": "no USB device of the host",
        "virtiofs": "no folder of the host",
        "vmgenid": "no generation id",
        "vmstate": _OWN,
    }
)
