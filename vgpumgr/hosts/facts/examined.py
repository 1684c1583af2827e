"""The helper's answer to ``examine`` → Examined. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from vgpumgr.hosts.facts.answer import Answer
from vgpumgr.model.errors import OutcomeUnknown
from vgpumgr.model.examined import Bar, Examined, UnitState
from vgpumgr.model.host import UnknownPart


def examined(answer: Mapping[str, object]) -> Examined:
    """How the host is set up (docs/helper-protocol.md).

    Raises OutcomeUnknown naming the part of the answer that makes no sense.
    """
    told = Answer(answer)
    return Examined(
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
        bars={address: _bars(lines) for address, lines in told.mapping("bars").items()},
        unknown=tuple(
            UnknownPart(part=each.text("part"), why=each.text("why"))
            for each in told.objects("unknown")
        ),
    )


def _texts(told: Answer, key: str) -> tuple[str, ...] | None:
    return told.texts(key) if told.has(key) else None


def _registers(told: Answer) -> dict[str, int]:
    return {name: _hexadecimal(told.text(name)) for name in told.names()}


def _hexadecimal(text: str) -> int:
    try:
        return int(text, 16)
    except ValueError:
        raise _no_sense(f"a register reads {text[:40]!r}") from None


def _units(told: Answer | None) -> dict[str, UnitState] | None:
    if told is None:
        return None
    return {
        name: UnitState(
            load=state.text("load"),
            enabled=state.text("enabled"),
            active=state.text("active"),
            result=state.text("result"),
        )
        for name, state in ((name, told.child(name)) for name in told.names())
    }


def _bars(lines: object) -> tuple[Bar, ...]:
    return tuple(_bar(line) for line in lines) if isinstance(lines, list) else (_bar(lines),)


def _bar(line: object) -> Bar:
    match line:
        case [int(start), int(end), int(flags)]:
            return Bar(start, end, flags)
    raise _no_sense(f"bars: three numbers expected, found {repr(line)[:80]}")


def _no_sense(why: str) -> OutcomeUnknown:
    return OutcomeUnknown("the helper's answer cannot be understood", why=why)
