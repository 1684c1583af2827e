"""The helper's answer to ``examine``, checked and read into a HostSetup; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from vgpumgr.hosts.facts.gpu_facts import MOST_GPUS
from vgpumgr.hosts.facts.host_facts import unknown_parts
from vgpumgr.hosts.facts.typed_answer import TypedAnswer
from vgpumgr.model.examination import Bar, HostSetup, UnitState

_REGISTER = re.compile(r"(0[xX])?[0-9a-fA-F]{1,16}")
_MOST_IOMMUS = 256
_MOST_UNITS = 64
_MOST_BARS = 32


def examined(answer: Mapping[str, object], host: str = "") -> HostSetup:
    """How the host is set up (docs/helper-protocol.md).

    Raises OutcomeUnknown naming the part of the answer that makes no sense.
    """
    told = TypedAnswer(answer, host=host)
    return HostSetup(
        helper=told.text("helper"),
        installed=told.maybe_text("installed"),
        user=told.text("user"),
        now=told.maybe_real("now"),
        synchronised=told.maybe_flag("synchronised"),
        kernel_line=_texts(told, "kernel_line"),
        acpi_tables=_texts(told, "acpi_tables"),
        iommus=_texts(told, "iommus"),
        iommu_groups=told.maybe_number("iommu_groups"),
        intel_ecap=_registers(told.child("intel_ecap")),
        remapping=told.maybe_flag("remapping"),
        unsafe_interrupts=told.maybe_flag("unsafe_interrupts"),
        modules=_texts(told, "modules"),
        available=_texts(told, "available"),
        blacklisted=_texts(told, "blacklisted"),
        guest_of=told.maybe_text("guest_of"),
        nested=told.maybe_flag("nested"),
        sudo_rules=_texts(told, "sudo_rules"),
        units=_units(told.maybe_child("units")),
        pools_at_boot=_texts(told, "pools_at_boot"),
        uefi=told.maybe_flag("uefi"),
        secure_boot=told.maybe_flag("secure_boot"),
        bars=_all_bars(told.child("bars")),
        unknown=unknown_parts(told),
    )


def _texts(told: TypedAnswer, key: str) -> tuple[str, ...] | None:
    return told.texts(key) if told.has(key) else None


def _registers(told: TypedAnswer) -> dict[str, int]:
    return {name: _hexadecimal(told, name) for name in told.names(most=_MOST_IOMMUS)}


def _hexadecimal(told: TypedAnswer, name: str) -> int:
    text = told.text(name)
    if _REGISTER.fullmatch(text) is None:
        raise told.nonsense(name, text, "sixteen hexadecimal digits")
    return int(text, 16)


def _units(told: TypedAnswer | None) -> dict[str, UnitState] | None:
    if told is None:
        return None
    return {
        name: UnitState(
            load=state.text("load"),
            enabled=state.text("enabled"),
            active=state.text("active"),
            result=state.text("result"),
        )
        for name, state in ((name, told.child(name)) for name in told.names(most=_MOST_UNITS))
    }


def _all_bars(told: TypedAnswer) -> dict[str, tuple[Bar, ...]]:
    return {address: tuple(_bars(told, address)) for address in told.names(most=MOST_GPUS)}


def _bars(told: TypedAnswer, address: str) -> Iterator[Bar]:
    for line in told.lists(address, most=_MOST_BARS):
        match line:
            case [int(start), int(end), int(flags)] if all(
                0 <= each < 2**64 for each in (start, end, flags)
            ):
                yield Bar(start, end, flags)
            case _:
                raise told.nonsense(address, line, "three numbers of 64 bits")
