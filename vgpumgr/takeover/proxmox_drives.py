"""Drives of a guest of Proxmox VE: disks with the files that hold them, EFI variables, TPM, CDs."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from vgpumgr.model.domain import DiskTuning
from vgpumgr.model.formats import exact_size
from vgpumgr.takeover.guest_description import SourceDisk
from vgpumgr.takeover.proxmox_config import ReadGuest, properties
from vgpumgr.takeover.source_keys import SourceKeys, is_on, shown, whole

BUSES = ("scsi", "virtio", "sata", "ide")
_SIZE = re.compile(r"([0-9]{1,12})(?:\.[0-9]+)?([KMGT]?)")
_FACTOR = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_STEM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,200}")
_SERIAL = re.compile(r"[A-Za-z0-9_.+-]{1,20}")
_ENDINGS = (".qcow2", ".raw", ".vmdk")
_CACHES = frozenset({"none", "writeback", "writethrough", "directsync", "unsafe"})
_MOST_IOPS = 10**9
_SAME_DRIVE = {
    "aio": "the host's QEMU chooses how it reads and writes",
    "detect_zeroes": "zeroes are written as such",
    "iothread": "no thread of its own",
    "queues": "QEMU's own number of queues",
}
_OTHER_DRIVE = {
    "backup": "a backup is told which VMs it takes",
    "replicate": "the storage is not replicated",
    "shared": "what a storage pool is, its host tells",
    "snapshot": "what is written stays written",
    "ro": "the guest may write to it",
    "ssd": "the guest is not told",
    "model": "the guest is not told",
    "product": "the guest is not told",
    "vendor": "the guest is not told",
    "wwn": "the guest is not told: serial is what it can know a disk by",
    "scsiblock": "a volume, no device of the host",
    "werror": "the guest is told of an error, or stops where the storage is full",
    "rerror": "the guest is told of an error",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadDrives:
    """The disks, that which boots first; ``secure_boot`` and ``tpm`` follow from drives, too."""

    disks: tuple[SourceDisk, ...]
    secure_boot: bool
    tpm: bool


def read(guest: ReadGuest) -> ReadDrives:
    """All drives of a guest."""
    keys = guest.keys
    found: dict[str, SourceDisk] = {}
    names = [key for bus in BUSES for key in keys.numbered(bus)]
    for key in [*names, *(["cdrom"] if "cdrom" in keys else [])]:
        options = properties(keys.get(key), "file")
        volume = options.pop("file", "")
        keys.add_options(key, options)
        if "cloudinit" in volume:
            keys.lost(key, "the drive of cloud-init: the guest had its first boot")
            _all(keys, key, options, "of the drive of cloud-init")
        elif key == "cdrom" or options.get("media") == "cdrom" or volume in {"none", "cdrom"}:
            _cd(keys, key, volume, options)
        else:
            found[key] = _disk(guest, key, volume, options)
    _controller(guest, found)
    order = _boot_order(guest, found)
    return ReadDrives(
        disks=tuple(found[key] for key in order),
        secure_boot=_efi_disk(keys),
        tpm=_tpm(keys),
    )


def _cd(keys: SourceKeys, key: str, volume: str, options: Mapping[str, str]) -> None:
    if volume in {"none", ""}:
        keys.lost(key, "an empty CD drive")
    else:
        keys.lost(key, "a CD drive: the ISO image stays there (cds: has one that is imported)")
    _all(keys, key, options, "of the CD drive")


def _all(keys: SourceKeys, key: str, options: Mapping[str, str], text: str) -> None:
    for name in options:
        keys.lost(f"{key}.{name}", text)


def _disk(guest: ReadGuest, key: str, volume: str, options: Mapping[str, str]) -> SourceDisk:
    keys = guest.keys
    bus = key.rstrip("0123456789")
    size = size_bytes(options.get("size", ""))
    if bus == "virtio":
        keys.kept(key, f"a virtio disk, copied from {shown(volume)}")
    else:
        driver = "its virtio driver (viostor) has to be in Windows before it comes"
        more = f"; {driver}" if guest.windows else "; the guest may call it /dev/vda"
        keys.changed(key, f"a virtio disk in place of {bus}, copied from {shown(volume)}{more}")
    if size:
        keys.kept(f"{key}.size", exact_size(size))
    keys.lost(f"{key}.size", "its file says its size")
    keys.kept(f"{key}.format", "the format of the file that is copied")
    keys.kept(f"{key}.media", "a disk")
    discard = options.get("discard")
    if discard == "on":
        keys.kept(f"{key}.discard", "what the guest discards is given to the storage")
    else:
        keys.changed(f"{key}.discard", "what the guest discards is given to the storage")
    tuning = _tuning(keys, key, options)
    for name in options:
        if name in _SAME_DRIVE:
            keys.changed(f"{key}.{name}", _SAME_DRIVE[name])
        elif name in _OTHER_DRIVE:
            keys.lost(f"{key}.{name}", _OTHER_DRIVE[name])
        elif name.startswith(("bps", "iops", "mbps")):
            keys.lost(f"{key}.{name}", "limits are on reads and writes together, without bursts")
    return SourceDisk(
        key=key,
        volume=volume,
        stems=_stems(volume, guest.id, key),
        size_bytes=size,
        tuning=tuning,
        fetch=_fetch(volume, guest.id, key),
    )


def _tuning(keys: SourceKeys, key: str, options: Mapping[str, str]) -> DiskTuning:
    cache = options.get("cache", "")
    if cache in _CACHES:
        keys.kept(f"{key}.cache", cache)
    serial = unquote(options.get("serial", ""))
    if _SERIAL.fullmatch(serial):
        keys.kept(f"{key}.serial", "the serial number in the guest")
    else:
        keys.lost(f"{key}.serial", "no serial number that libvirt takes")
        serial = ""
    iops = whole(options.get("iops", ""), _MOST_IOPS) or None
    keys.kept(f"{key}.iops", f"{iops} requests a second")
    return DiskTuning(
        cache=cache if cache in _CACHES else "",
        serial=serial,
        iops=iops,
        bytes_s=_bytes_a_second(keys, key, options),
    )


def _bytes_a_second(keys: SourceKeys, key: str, options: Mapping[str, str]) -> int | None:
    """``mbps`` is in MiB a second, ``bps`` in bytes; a limit is in whole KiB here."""
    limit = whole(options.get("bps", ""), 1 << 40)
    if "mbps" in options:
        limit = mib_rate(options["mbps"])
    if not limit or limit < 1024:
        return None
    kib = limit >> 10
    for name in ("mbps", "bps"):
        keys.kept(f"{key}.{name}", f"{exact_size(kib << 10)} a second")
    return kib << 10


def mib_rate(text: str) -> int | None:
    """``12.5`` MiB a second in bytes; None for what is no such number, or none that is small
    enough.
    """
    match = re.fullmatch(r"([0-9]{1,6})(?:\.([0-9]{1,6}))?", text)
    if match is None:
        return None
    part = int((match[2] or "0").ljust(6, "0"))
    return min((int(match[1]) << 20) + (part << 20) // 10**6, 1 << 40)


def size_bytes(text: str) -> int:
    """``32G`` → 34359738368; 0 for what is no size."""
    match = _SIZE.fullmatch(text)
    if match is None:
        return 0
    size = int(match[1]) * _FACTOR[match[2]]
    return size if size <= 1 << 50 else 0


def _stems(volume: str, guest: str, key: str) -> tuple[str, ...]:
    """``local:101/vm-101-disk-0.qcow2`` → ``vm-101-disk-0``; and ``vm-101-scsi0``."""
    name = posixpath.basename(volume.rpartition(":")[2])
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    own = f"vm-{guest}-{key}" if guest else ""
    return tuple(each for each in dict.fromkeys((name, own)) if _STEM.fullmatch(each))


def _fetch(volume: str, guest: str, key: str) -> str:
    """The command that makes a file of a disk on any storage of that manager."""
    stems = _stems(volume, guest, key)
    name = stems[0] if stems else key
    path = (
        shlex.quote(volume) if volume.startswith("/") else f'"$(pvesm path {shlex.quote(volume)})"'
    )
    return f"qemu-img convert -O qcow2 {path} FOLDER/{name}.qcow2"


def _controller(guest: ReadGuest, found: Mapping[str, SourceDisk]) -> None:
    if any(key.startswith("scsi") for key in found):
        guest.keys.changed("scsihw", "virtio disks without a SCSI controller")
    else:
        guest.keys.lost("scsihw", "there is no SCSI disk")


def _boot_order(guest: ReadGuest, found: Mapping[str, SourceDisk]) -> list[str]:
    """The disks with those first that boot first."""
    keys = guest.keys
    options = properties(keys.get("boot"), "legacy")
    order = [each for each in options.get("order", "").split(";") if each]
    if not order and "bootdisk" in keys:
        order = [keys.get("bootdisk")]
    first = [each for each in dict.fromkeys(order) if each in found]
    if first and order[0] == first[0]:
        keys.kept("boot", f"boots from {first[0]}")
    elif found:
        keys.changed("boot", f"boots from {(first or list(found))[0]}, its first disk")
    else:
        keys.lost("boot", "it has no disk")
    keys.kept("bootdisk", "the disk that boots comes first")
    return [*first, *(each for each in found if each not in first)]


def _efi_disk(keys: SourceKeys) -> bool:
    """Whether secure boot was on when its variables were made."""
    options = properties(keys.get("efidisk0"), "file")
    options.pop("file", "")
    keys.add_options("efidisk0", options)
    keys.lost("efidisk0", "EFI variables: the firmware finds the boot loader by its usual path")
    signed = is_on(options.get("pre-enrolled-keys", "")) and options.get("efitype") == "4m"
    keys.kept("efidisk0.pre-enrolled-keys", "secure boot" if signed else "no secure boot")
    _all(keys, "efidisk0", options, "of the EFI variables")
    return signed


def _tpm(keys: SourceKeys) -> bool:
    options = properties(keys.get("tpmstate0"), "file")
    options.pop("file", "")
    keys.add_options("tpmstate0", options)
    if options.get("version") == "v2.0":
        keys.kept("tpmstate0.version", "TPM 2.0")
    else:
        keys.changed("tpmstate0.version", "TPM 2.0")
    text = "an empty TPM 2.0: what the old one held is lost (BitLocker asks for its recovery key)"
    keys.changed("tpmstate0", text)
    _all(keys, "tpmstate0", options, "of the TPM's old state")
    return "tpmstate0" in keys
