"""``os:`` of a VM or a pool: the operating system, and the machine that it takes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

from pydantic import AfterValidator, Field

from vgpumgr import guests
from vgpumgr.model.formats import format_mib
from vgpumgr.spec.fields import Line, refuse
from vgpumgr.spec.spec_file import did_you_mean, either

_NEEDED = {"tpm": "a TPM 2.0", "secure_boot": "secure boot"}


def _known_system(name: str) -> str:
    known = guests.systems()
    if name not in known:
        refuse(f"must be {either(known)}{did_you_mean(name, known)}")
    return name


System = Annotated[
    Line, AfterValidator(_known_system), Field(json_schema_extra={"enum": list(guests.systems())})
]


def implied_switches(name: str | None) -> Collection[str]:
    """The switches that a VM with that system has without being told."""
    return guests.system(name).needs if name else ()


def check_system(
    name: str, *, refused: Collection[str], firmware: str, vcpus: int, memory_mib: int
) -> None:
    """Refuse a machine that the system cannot be installed on; ``refused`` are the switches that
    the document says are off.
    """
    system = guests.system(name)
    for switch in system.needs:
        if switch in refused:
            refuse(f"{name} starts with {_NEEDED[switch]} alone: leave {switch} out", switch)
    if system.firmware and firmware != system.firmware:
        refuse(f"{name} starts from {system.firmware} alone: leave firmware out", "firmware")
    if vcpus < system.least_vcpus:
        refuse(f"{name} is installed on {system.least_vcpus} vCPUs or more", "vcpus")
    if memory_mib < system.least_memory_mib:
        refuse(f"{name} is installed with {format_mib(system.least_memory_mib)} or more", "memory")
