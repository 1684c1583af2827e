"""Probes of one host, each of which reads what has changed since the one before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from vgpumgr.hosts.facts.host_facts import LibvirtLists, joined
from vgpumgr.hosts.facts.probe_answer import AnswerParts, read_answer
from vgpumgr.hosts.libvirt_look import LibvirtLike, LibvirtLook, LibvirtLooks, PoolsToAsk
from vgpumgr.model.errors import HostRefused, OutcomeUnknown, VgpumgrError
from vgpumgr.model.host import HostFacts, UnknownPart
from vgpumgr.model.ports import Helper

_KVM = "kvm"


@dataclass(frozen=True, slots=True)
class _Probed:
    """What one probe has found, and the facts made of it. ``kvm`` is the verdict where it had to be
    tried; without a ``look`` at libvirt ``silent`` says why.
    """

    answer: AnswerParts
    kvm: bool | None
    look: LibvirtLook | None
    silent: UnknownPart | None
    facts: HostFacts


class HostProbe:
    """Remembers the last probe of a host, and presents its digests at the next.

    After an error nothing is remembered: the next probe reads everything. Several threads may
    probe at once.
    """

    def __init__(
        self,
        host: str,
        helper: Helper,
        libvirt: Callable[[], LibvirtLike],
        clock: Callable[[], float],
    ) -> None:
        self._host = host
        self._helper = helper
        self._libvirt = LibvirtLooks(host, libvirt, clock)
        self._last: _Probed | None = None
        self.stalled: tuple[str, ...] = ()
        """The storage pools whose server did not answer at the last probe."""

    def read(self) -> HostFacts:
        """The host's facts; without libvirt that part is *unknown*.

        The same object as the last time where nothing has changed.
        """
        last, self._last = self._last, None
        answer = self._asked(last)
        self.stalled = answer.parts["machine"]["stalled_pools"]
        kvm = self._kvm(answer, last)
        look, silent = self._looked(answer, last)
        if last is not None and _is_as_before(last, answer, kvm, look, silent):
            facts = last.facts
        else:
            facts = self._facts(answer, kvm, look, silent)
        self._last = _Probed(answer, kvm, look, silent, facts)
        return facts

    def _asked(self, last: _Probed | None) -> AnswerParts:
        """What the helper tells; what is invalid beside what was presented is asked for once
        more, as if nothing were known.
        """
        known = last.answer if last is not None else None
        if known is not None and known.digests:
            try:
                asked = {"known": dict(known.digests)}
                return read_answer(self._host, self._helper.call("probe", asked), known)
            except (OutcomeUnknown, HostRefused):
                known = known.without_digests()
        return read_answer(self._host, self._helper.call("probe", {}), known)

    def _kvm(self, answer: AnswerParts, last: _Probed | None) -> bool | None:
        """Where KVM was never tried with this kernel and QEMU, try it; the host remembers."""
        if not any(each.part == _KVM for each in answer.parts["unknown"]["unknown"]):
            return None
        if last is not None and last.kvm is not None and answer.is_same(last.answer, "machine"):
            return last.kvm
        try:
            return bool(self._helper.call("kvm_probe", {}).get("kvm"))
        except VgpumgrError:
            return None  # it stays unknown, as the answer says

    def _looked(
        self, answer: AnswerParts, last: _Probed | None
    ) -> tuple[LibvirtLook | None, UnknownPart | None]:
        """A reboot, another helper, or anything that cannot be read makes it doubtful whether an
        earlier look holds.
        """
        before = last.look if last is not None else None
        doubted = last is None or not answer.is_same(last.answer, "machine", "unknown")
        try:
            pools = PoolsToAsk(answer.parts["machine"]["defined_pools"], self.stalled)
            return self._libvirt.look(answer.libvirt, before, pools, doubted=doubted), None
        except VgpumgrError as error:
            return None, UnknownPart(part="libvirt", why=_in_words(error))

    def _facts(
        self,
        answer: AnswerParts,
        kvm: bool | None,
        look: LibvirtLook | None,
        silent: UnknownPart | None,
    ) -> HostFacts:
        lists = look.lists if look is not None else LibvirtLists()
        facts = joined(self._host, answer.parts.values(), lists)
        if kvm is not None:
            others = tuple(each for each in facts.unknown if each.part != _KVM)
            facts = replace(facts, kvm=kvm, unknown=others)
        return replace(facts, unknown=(*facts.unknown, silent)) if silent else facts


def _is_as_before(
    last: _Probed,
    answer: AnswerParts,
    kvm: bool | None,
    look: LibvirtLook | None,
    silent: UnknownPart | None,
) -> bool:
    lists, before = look and look.lists, last.look and last.look.lists
    told = answer.is_same(last.answer) and (kvm, silent) == (last.kvm, last.silent)
    return told and lists is before


def _in_words(error: VgpumgrError) -> str:
    """What libvirt refused says why alone; an answer without sense says where, too."""
    if isinstance(error, OutcomeUnknown):
        return f"{error.message}: {error.why}" if error.why else error.message
    return error.why or error.message
