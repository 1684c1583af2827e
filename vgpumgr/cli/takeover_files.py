"""Files of a takeover on this machine: descriptions of VMs, and the disks that were fetched."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vgpumgr.cli.user_files import MAX_BYTES, read_file
from vgpumgr.endpoints.documents import STDIN, source_name
from vgpumgr.endpoints.takeovers import MAX_SOURCES, TakeoverDisk, TakeoverItem
from vgpumgr.model.errors import NotFound, UsageError
from vgpumgr.model.formats import counted

ENDINGS: Mapping[str, tuple[str, ...]] = {
    "proxmox": (".conf",),
    "ovf": (".ovf", ".ova"),
    "libvirt": (".xml",),
}
"""The files of a folder that are descriptions, by their manager."""
IMAGES: Mapping[str, str] = {".qcow2": "qcow2", ".raw": "raw", ".img": "raw"}
_OTHER_IMAGES = (".vmdk", ".vhd", ".vhdx", ".vdi")
_MOST_MEMBERS = 1_000


def descriptions(paths: Sequence[str], manager: str) -> list[tuple[str, str]]:
    """Name and text of each description; a folder stands for those in it. NotFound, UsageError."""
    found = [pair for path in paths for pair in _of_path(path, manager)]
    if not found:
        ending = " or ".join(f"*{each}" for each in ENDINGS[manager])
        raise NotFound(f"no description of a VM in {', '.join(paths)}", why=f"no file is {ending}")
    if len(found) > MAX_SOURCES:
        raise UsageError(f"{len(found)} descriptions: at most {MAX_SOURCES} at a time")
    return found


def _of_path(path: str, manager: str) -> Iterator[tuple[str, str]]:
    if path != STDIN and Path(path).is_dir():
        for each in sorted(Path(path).iterdir()):
            if each.suffix in ENDINGS[manager] and each.is_file():
                yield str(each), _text(str(each))
    else:
        yield source_name(path), _text(path)


def _text(path: str) -> str:
    """Of a description of Proxmox's, a byte that is no UTF-8 is written out (``\\xff``), as one old
    comment keeps no VM from coming.
    """
    data = _descriptor(path) if path.endswith(".ova") else read_file(path)
    if path.endswith(".conf"):
        return data.decode(errors="backslashreplace")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = f"byte 0x{data[error.start]:02x} in line {line}"
        raise UsageError(
            f"{source_name(path)} is no UTF-8 text",
            why=byte,
            next="save it as UTF-8, or name the other files alone",
        ) from error


def _descriptor(path: str) -> bytes:
    """The OVF descriptor of an OVA, which is a plain tar file that begins with it."""
    if not Path(path).exists():
        raise NotFound(f"no file {path}")
    try:
        with tarfile.open(path, "r:") as archive:
            for number, member in enumerate(archive):
                if member.isfile() and member.name.endswith(".ovf"):
                    opened = archive.extractfile(member)
                    return opened.read(MAX_BYTES + 1) if opened else b""
                if number >= _MOST_MEMBERS:
                    break
    except (tarfile.TarError, OSError, ValueError) as error:
        raise UsageError(f"{path} is no OVA", why=str(error)) from error
    raise UsageError(f"{path} holds no OVF descriptor", why="an OVA is a tar file that has one")


def mapping_text(paths: Sequence[str], chosen: str | None) -> str:
    """Proxmox's resource mappings: the file chosen, or ``mapping/pci.cfg`` next to the folder."""
    if chosen is not None:
        return _text(chosen)
    for path in paths:
        beside = Path(path).parent / "mapping" / "pci.cfg"
        if path != STDIN and Path(path).is_dir() and beside.is_file():
            return _text(str(beside))
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedDisk:
    """A disk of a VM and the file that has its data, with the size of the disk in it."""

    disk: TakeoverDisk
    path: str
    format: str
    virtual_bytes: int


def fetched_disks(item: TakeoverItem, folders: Sequence[str]) -> list[FetchedDisk]:
    """The file of each disk of a VM; NotFound says what to type for those without."""
    found, missing = [], []
    for disk in item["disks"]:
        path = _file_of(disk, folders)
        if path is None:
            missing.append(disk)
        else:
            found.append(_inspected(disk, path))
    if missing:
        raise _missing(item, missing, folders)
    return found


def _file_of(disk: TakeoverDisk, folders: Sequence[str]) -> Path | None:
    places = (
        Path(folder) / f"{stem}{ending}"
        for stem in disk["stems"]
        for folder in folders
        for ending in IMAGES
    )
    return next((each for each in places if each.is_file()), None)


def _inspected(disk: TakeoverDisk, path: Path) -> FetchedDisk:
    """Looked at before anything is changed: of its format, whole, without a backing file."""
    from vgpumgr.engine.steps.image_file import opened
    from vgpumgr.image_inspection import inspect

    kind, absolute = IMAGES[path.suffix], str(path.absolute())
    with opened(absolute) as file:
        size = inspect(file, kind, name=str(path), most_bytes=1 << 62).virtual_bytes
    return FetchedDisk(disk=disk, path=absolute, format=kind, virtual_bytes=size)


def _missing(
    item: TakeoverItem, missing: Sequence[TakeoverDisk], folders: Sequence[str]
) -> NotFound:
    folder = folders[0] if folders else "FOLDER"
    names = [f"{each['key']} ({(each['stems'] or ['?'])[0]}.qcow2 or .raw)" for each in missing]
    other = [_other_file(each, folders) for each in missing]
    known = [each for each in other if each]
    why = f"no file in {', '.join(folders)}" if folders else "no folder is given with --disks"
    command = missing[0]["fetch"].replace("FOLDER", folder)
    where = "here" if known else "on the source, and bring the file here"
    return NotFound(
        f"{item['name']}: {counted(len(missing), 'disk')} without a file: {', '.join(names)}",
        why=f"{known[0]} is of a format that is not used" if known else why,
        next=f"{_convert(known[0], missing[0], folder) if known else command}   ({where})",
    )


def _other_file(disk: TakeoverDisk, folders: Sequence[str]) -> str:
    places = (
        Path(folder) / f"{stem}{ending}"
        for stem in disk["stems"]
        for folder in folders
        for ending in _OTHER_IMAGES
    )
    return next((str(each) for each in places if each.is_file()), "")


def _convert(path: str, disk: TakeoverDisk, folder: str) -> str:
    import shlex

    to = str(Path(folder) / f"{disk['stems'][0]}.qcow2")
    return f"qemu-img convert -O qcow2 {shlex.quote(path)} {shlex.quote(to)}"


def with_disks(document: Mapping[str, Any], disks: Sequence[FetchedDisk]) -> dict[str, Any]:
    """A VM's document with the formats of the files that its disks are copied from."""
    given = [
        {**each, "image_format": disk.format, "format": disk.format}
        if disk.format != "qcow2"
        else dict(each)
        for each, disk in zip(document.get("disks", ()), disks, strict=True)
    ]
    return {**document, "disks": given} if given else dict(document)
