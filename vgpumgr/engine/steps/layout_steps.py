"""Steps of a GPU's layout on its host: kept, changed part by part, forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from vgpumgr import layout
from vgpumgr.engine.steps.step import Step, UndoNotPossible
from vgpumgr.model import formats
from vgpumgr.model.errors import HostRefused, InUse, OutcomeUnknown
from vgpumgr.model.layout import LayoutRecord, PartChange
from vgpumgr.model.operation import Differs, InState, Observed, Unknown
from vgpumgr.model.ports import Clock, Host


@dataclass(frozen=True, slots=True)
class KeepLayout(Step):
    """Have the host write down what its boots are to bring back, before anything changes.

    ``device`` is the PF's address, ``gpu`` our key and ``generation`` the GPU's; ``parts`` as the
    helper's ``layout_claim`` takes them.
    """

    device: str
    gpu: str
    generation: int
    layout: str
    parts: Mapping[str, object]

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"keep layout {self.layout} of {self.device} for the host's next boot"

    def look(self, host: Host) -> Observed:
        """Is it there, under this generation?"""
        there = self.claim_on(host)
        unit = formats.layout_claim(self.device)
        return InState() if there == self.claim else Differs(f"{unit} is {there}")

    def act(self, host: Host, clock: Clock) -> None:
        """Write it; the helper reads back before it answers."""
        self.write(host)

    def write(self, host: Host) -> None:
        """Have the host write it down."""
        args = {"gpu": self.device, "claim": self.claim, **self.parts}
        host.helper.call("layout_claim", args)

    @property
    def claim(self) -> dict[str, object]:
        """The claim that the helper writes."""
        return {"allocation": self.gpu, "generation": self.generation, "vm": self.layout}

    def claim_on(self, host: Host) -> dict[str, object] | None:
        """The claim of any layout that the host keeps for the GPU; None without any."""
        found = host.helper.call("claims", {}).get("claims")
        claims = found if isinstance(found, list) else []
        unit = formats.layout_claim(self.device)
        there = next((each for each in claims if each["unit"] == unit), None)
        return there and {name: there[name] for name in self.claim}


@dataclass(frozen=True, slots=True)
class ChangePart(Step):
    """``change`` is a PartChange as ``layout.to_plain`` writes it, ``device`` the PF's address."""

    device: str
    change: Mapping[str, object]

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"{layout.summary(layout.from_plain(self.change))} on {self.device}"

    def look(self, host: Host) -> Observed:
        """Is this part in the wanted state?"""
        return layout.look(host.helper, self.device, layout.from_plain(self.change))

    def act(self, host: Host, clock: Clock) -> None:
        """Change it; the helper reads back before it answers."""
        layout.act(host.helper, self.device, layout.from_plain(self.change))

    def undo(self, host: Host) -> None:
        """Power limit and clocks as they were; the others only go forward."""
        back = layout.reverse(layout.from_plain(self.change))
        if back is None:
            raise UndoNotPossible(f"{self.summary}: cannot be undone on {host.name}")
        layout.act(host.helper, self.device, back)


@dataclass(frozen=True, slots=True)
class PartitionGpu(Step):
    """An empty GPU as a VM needs it. Several VMs may be made on it: the first that comes changes
    it, and the last that is undone changes it back.

    ``changes`` lead there and ``back`` lead back, PartChanges as ``layout.to_plain`` writes them;
    ``vfs`` are the addresses that its VFs then have. ``kept`` is what its host kept before, ``was``
    the ledger's record of that; None without any.
    """

    keep: KeepLayout
    changes: tuple[Mapping[str, object], ...]
    back: tuple[Mapping[str, object], ...]
    vfs: tuple[str, ...]
    kept: KeepLayout | None = None
    was: LayoutRecord | None = None

    @property
    def summary(self) -> str:
        """A line for people."""
        words = ", ".join(map(layout.summary, self._last(self.changes)))
        return f"{words} on {self.keep.device}"

    def look(self, host: Host) -> Observed:
        """Is the GPU so, and does its host keep that for the next boot?"""
        for change in self._last(self.changes):
            seen = layout.look(host.helper, self.keep.device, change)
            if not isinstance(seen, InState):
                return seen
        return self.keep.look(host)

    def act(self, host: Host, clock: Clock) -> None:
        """Have it kept, then change part by part; what is so already is not touched."""
        if not isinstance(self.look(host), InState):
            self.keep.act(host, clock)
            self._change(host, self.changes)
        self._require_vfs(host)

    def undo(self, host: Host) -> None:
        """As it was, unless another VM lives there; where its driver will not, it stays as it is,
        and empty.
        """
        if self._is_claimed(host):
            return
        with suppress(HostRefused, InUse):
            self._change(host, self.back)
        if self.kept is not None:
            self.kept.write(host)
            return
        there = self.keep.claim_on(host)
        if there is not None and there["allocation"] == self.keep.gpu:
            host.helper.call("layout_forget", {"gpu": self.keep.device, "claim": there})

    def _change(self, host: Host, changes: tuple[Mapping[str, object], ...]) -> None:
        """Each that is due, unless all of them are done."""
        device, due = self.keep.device, [layout.from_plain(each) for each in changes]
        if all(_is_done(host, device, each) for each in self._last(changes)):
            return
        for change in due:
            if not _is_done(host, device, change):
                layout.act(host.helper, device, change)

    def _last(self, changes: tuple[Mapping[str, object], ...]) -> list[PartChange]:
        """The last change of each part: what came before only made way for it."""
        return list({str(each["kind"]): layout.from_plain(each) for each in changes}.values())

    def _require_vfs(self, host: Host) -> None:
        """HostRefused where the VFs are not where the SR-IOV capability said."""
        seen: Any = host.helper.call("gpu_look", {"gpu": self.keep.device})["device"]
        there = [each["address"] for each in (seen["sriov"] or {"vfs": ()})["vfs"]]
        if not set(self.vfs) <= set(there):
            raise HostRefused(
                f"the VFs of {self.keep.device} are not at the addresses that were expected",
                why=f"expected {self.vfs[0]}…, there: {', '.join(there[:4]) or 'none'}",
                next="vgpumgr layout apply -f FILE with a Layout for this GPU",
            )

    def _is_claimed(self, host: Host) -> bool:
        """Does the host keep a claim on any function of the GPU, its layout aside?"""
        units = set(map(formats.pci_claim, (self.keep.device, *self.vfs)))
        found = host.helper.call("claims", {}).get("claims")
        claims = found if isinstance(found, list) else []
        return any(
            each["unit"] in units or each["wanted"].get("parent") in self.vfs for each in claims
        )


def _is_done(host: Host, device: str, change: PartChange) -> bool:
    """OutcomeUnknown where the host cannot tell."""
    match layout.look(host.helper, device, change):
        case InState():
            return True
        case Differs():
            return False
        case Unknown(why):
            summary = layout.summary(change)
            raise OutcomeUnknown(f"{summary} on {device}: cannot tell whether it is so", why=why)


@dataclass(frozen=True, slots=True)
class ForgetLayout(Step):
    """The GPU stays as it is until the next boot. ``kept`` is what its host had of the layout."""

    kept: KeepLayout

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"forget layout {self.kept.layout} of {self.kept.device}"

    def look(self, host: Host) -> Observed:
        """Is there nothing kept for the GPU any more?"""
        there = self.kept.claim_on(host)
        unit = formats.layout_claim(self.kept.device)
        return InState() if there is None else Differs(f"{unit} is {there}")

    def act(self, host: Host, clock: Clock) -> None:
        """Have it forgotten; none there is no error."""
        args = {"gpu": self.kept.device, "claim": self.kept.claim}
        host.helper.call("layout_forget", args)

    def undo(self, host: Host) -> None:
        """Have it kept again."""
        self.kept.write(host)
