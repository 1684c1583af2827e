"""A VM as another manager describes it, in words that all sources share."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.model.domain import UNTUNED_DISK, DiskTuning
from vgpumgr.model.vm import GpuRequest
from vgpumgr.model.vm_devices import NicSpec
from vgpumgr.takeover.source_keys import SourceFinding

MAX_TEXT = 1 << 20
"""The longest description that is read, in characters."""


class Unreadable(Exception):
    """Why a text is no description of a VM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDisk:
    """A disk of the source. ``key`` names it there, ``volume`` is what holds its data, ``stems``
    are names that a file with it may have, without their ending; ``size_bytes`` 0: it does not say.
    ``fetch`` is what to type on the source for a file of it, with FOLDER where that goes.
    """

    key: str
    volume: str
    stems: tuple[str, ...] = ()
    size_bytes: int = 0
    tuning: DiskTuning = UNTUNED_DISK
    fetch: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestDescription:
    """``source`` is what the text was called, ``title`` the VM's own name there. ``problems`` keep
    it from being taken over as it is; ``stop`` is what to type on the source to have it off.
    """

    source: str
    title: str
    vcpus: int = 1
    memory_mib: int = 0
    gpus: tuple[GpuRequest, ...] = ()
    disks: tuple[SourceDisk, ...] = ()
    nics: tuple[NicSpec, ...] = ()
    firmware: str = "bios"
    secure_boot: bool = False
    tpm: bool = False
    console: bool = False
    agent: bool = False
    audio: bool = False
    autostart: bool = False
    cpu_model: str = ""
    cpu_shares: int | None = None
    hugepage_kib: int | None = None
    uuid: str = ""
    os: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    findings: tuple[SourceFinding, ...] = ()
    problems: tuple[str, ...] = ()
    stop: str = ""
