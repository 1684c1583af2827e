"""Steps of a GPU's layout on its host: kept, changed part by part, forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vgpumgr import layout
from vgpumgr.engine.steps.step import Step
from vgpumgr.model import formats
from vgpumgr.model.operation import Differs, InState, Observed
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
