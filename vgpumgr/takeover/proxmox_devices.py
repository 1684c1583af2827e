"""Devices of a guest of Proxmox VE, and what becomes of its keys of which no value is read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from vgpumgr.model.domain import NicTuning
from vgpumgr.model.gpu import PASSTHROUGH_PROFILE
from vgpumgr.model.vm import GpuRequest
from vgpumgr.model.vm_devices import NicSpec
from vgpumgr.takeover.proxmox_config import ReadGuest, properties
from vgpumgr.takeover.proxmox_drives import mib_rate
from vgpumgr.takeover.source_keys import SourceKeys, is_on, shown, whole
from vgpumgr.takeover.takeover_choices import NONE

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


_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", re.IGNORECASE)
_NIC_MODELS = frozenset(
    {
        *("e1000", "e1000-82540em", "e1000-82544gc", "e1000-82545em", "e1000e", "i82551"),
        *("i82557b", "i82559er", "ne2k_isa", "ne2k_pci", "pcnet", "rtl8139", "virtio", "vmxnet3"),
    }
)
_SCREENS = frozenset(
    {"std", "cirrus", "qxl", "qxl2", "qxl3", "qxl4", "virtio", "virtio-gl", "vmware"}
)
_MOST_KIB = 1 << 30
_DEVICE = {
    "pcie": "every GPU part is a PCIe device",
    "rombar": "the GPU's ROM is as libvirt has it",
    "driver": "the host is told by vgpumgr which driver a GPU part needs",
}


def gpus(guest: ReadGuest) -> tuple[GpuRequest, ...]:
    """The GPU parts of all ``hostpci`` keys, in their order."""
    return tuple(_gpus(guest))


def _gpus(guest: ReadGuest) -> Iterator[GpuRequest]:
    keys = guest.keys
    for key in keys.numbered("hostpci"):
        options = properties(keys.get(key), "host")
        host = options.pop("host", "")
        keys.add_options(key, options)
        names = [options["mapping"]] if "mapping" in options else []
        names += [each.strip().lower() for each in host.split(";") if each.strip()]
        found = _request(guest, names, options)
        _name(guest, key, names, options, found)
        for name in options:
            if name in _DEVICE:
                keys.changed(f"{key}.{name}", _DEVICE[name])
            else:
                keys.lost(f"{key}.{name}", "no key for it")
        if isinstance(found, GpuRequest):
            yield found


def _request(
    guest: ReadGuest, names: list[str], options: Mapping[str, str]
) -> GpuRequest | str | None:
    if "mdev" in options:
        return guest.choices.mdev(options["mdev"], *names)
    found = guest.choices.device(names)
    if found is None and is_on(options.get("x-vga", "")):
        return GpuRequest(profile=PASSTHROUGH_PROFILE)
    return found


def _name(
    guest: ReadGuest,
    key: str,
    names: list[str],
    options: Mapping[str, str],
    found: GpuRequest | str | None,
) -> None:
    """What becomes of the device, and of the keys that led to it."""
    keys = guest.keys
    kind = options.get("mdev", "")
    called = shown(kind or (names[0] if names else keys.get(key)))
    if isinstance(found, GpuRequest):
        on = f" on {' or '.join(found.any_of)}" if found.any_of else ""
        keys.kept(key, f"{found.profile}{on}, on a GPU that placement chooses")
        keys.kept(f"{key}.mdev", found.profile)
        keys.changed(f"{key}.mapping", "placement chooses the GPU")
        keys.changed(f"{key}.x-vga", "the guest's own driver shows its screen")
        return
    if found == NONE:
        keys.lost(key, "left out, as was chosen")
    else:
        what = f"which profile {called} is" if kind else f"whether {called} is a GPU, or which"
        keys.lost(key, f"nothing says {what}")
        example = f"--gpu {called}=PROFILE" if kind else f"--gpu {called}=BOARD, or =none"
        guest.problems.append(f"{key}: nothing says {what}: {example}")
    keys.lost(f"{key}.mdev", "no profile is known for it")
    keys.lost(f"{key}.mapping", "no GPU is known for it")
    keys.lost(f"{key}.x-vga", "no GPU is known for it")


def nics(guest: ReadGuest) -> tuple[NicSpec, ...]:
    """The NICs of all ``net`` keys, in their order, with their MAC addresses."""
    return tuple(_nic(guest, key) for key in guest.keys.numbered("net"))


def _nic(guest: ReadGuest, key: str) -> NicSpec:
    keys = guest.keys
    options = properties(keys.get(key), "model")
    model, mac = _model(options)
    keys.add_options(key, options)
    bridge = options.get("bridge", "")
    if bridge:
        nic = guest.choices.nic(bridge)
        there = f"bridge {nic.bridge}" if nic.bridge else f"network {nic.network}"
        (keys.kept if nic.bridge == bridge else keys.changed)(f"{key}.bridge", shown(there))
    else:
        nic = NicSpec(network="default")
        there = "network default"
    if not _MAC.fullmatch(mac) or int(mac[:2], 16) & 1:
        guest.problems.append(f"{key}: {shown(mac) or 'no MAC address'} is no MAC address of a NIC")
        mac = ""
    kept = "virtio" if model == "virtio" else "e1000e"
    text = f"{kept} on {shown(there)}, MAC address {mac.lower() or 'unknown'} kept"
    if model in {"virtio", "e1000e"} and bridge:
        keys.kept(key, text)
    else:
        keys.changed(key, text)
    tuning = replace(_nic_tuning(keys, key, options, bridged=bool(nic.bridge)), model=kept)
    return replace(nic, mac=mac.lower(), tuning=tuning)


def _model(options: dict[str, str]) -> tuple[str, str]:
    """``virtio=MAC``, or ``model=virtio`` with ``macaddr``; both are taken out of the options."""
    model = options.pop("model", "")
    for each in _NIC_MODELS & options.keys():
        return each, options.pop(each)
    return model, options.pop("macaddr", "")


def _nic_tuning(
    keys: SourceKeys, key: str, options: Mapping[str, str], *, bridged: bool
) -> NicTuning:
    vlan = whole(options.get("tag", ""), 4094)
    if vlan and bridged:
        keys.kept(f"{key}.tag", f"VLAN {vlan} of the bridge's port (libvirt 11 and later)")
    else:
        keys.lost(f"{key}.tag", "no VLAN of a bridge")
        vlan = None
    limit = mib_rate(options.get("rate", ""))
    kib = min(limit >> 10, _MOST_KIB) if limit else 0
    if kib:
        keys.kept(f"{key}.rate", f"{kib} KiB a second, each way")
    else:
        keys.lost(f"{key}.rate", "no limit")
    if is_on(options.get("firewall", "")):
        text = "the rules of that manager's firewall; filter: clean-traffic guards addresses"
        keys.lost(f"{key}.firewall", text)
    else:
        keys.kept(f"{key}.firewall", "no firewall")
    for name in options:
        keys.lost(f"{key}.{name}", "no key for it")
    return NicTuning(vlan=vlan or None, inbound_kib_s=kib or None, outbound_kib_s=kib or None)


def console(guest: ReadGuest) -> bool:
    """Whether it has a screen; its serial line is named, too."""
    keys = guest.keys
    options = properties(keys.get("vga", "std"), "type")
    kind = options.pop("type", "std")
    keys.add_options("vga", options)
    if kind in _SCREENS:
        keys.changed("vga", "a screen over VNC, for vgpumgr vm connect")
    elif kind.startswith("serial"):
        keys.kept("vga", "no screen; vgpumgr vm console is the serial line")
    else:
        keys.kept("vga", "no screen")
    for name in options:
        keys.lost(f"vga.{name}", "no key for it")
    if keys.get("serial0") == "socket":
        keys.kept("serial0", "the serial line of vgpumgr vm console")
    keys.changed("watchdog", "the watchdog of q35, which resets a guest that hangs")
    return kind in _SCREENS
