"""Guests that run without a licence, and editions of which few seats are left: told once each.

A guest's driver asks for its licence after it has started, and is throttled more the longer it has
none (NVIDIA's help on licensing). So a guest is given a while before it is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from vgpumgr.model.licence import Licence, edition_of
from vgpumgr.telemetry.current_figures import CurrentGpu

PATIENCE_S = 20 * 60.0
"""How long a guest may look for its licence before it is told."""
NEARLY = 0.9
"""The share of the seats from which an edition is told to be nearly used up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LicenceNotice:
    """What is new, a sentence; ``over``: it is over. ``vm`` is empty for an edition."""

    text: str
    vm: str = ""
    host: str = ""
    edition: str = ""
    over: bool = False


@dataclass(slots=True)
class _Guest:
    host: str
    profile: str
    since: float
    seen: float
    told: bool = False


class LicenceWatch:
    """Remembers since when each guest has had none. A guest that tells nothing for a while
    stays as it is; one that tells nothing for longer was off.
    """

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._guests: dict[str, _Guest] = {}
        self._short: set[str] = set()

    def guests(self, gpus: Iterable[CurrentGpu], now: float) -> Iterator[LicenceNotice]:
        """What is new of guests, by the newest figures."""
        for gpu in gpus:
            for each in gpu.parts:
                told = each.figures.get("licensed")
                if each.part is not None and told is not None:
                    held = each.part.allocation
                    yield from self._guest(held.vm, held.host, held.profile, bool(told), now)

    def _guest(
        self, vm: str, host: str, profile: str, licensed: bool, now: float
    ) -> Iterator[LicenceNotice]:
        if licensed:
            gone = self._guests.pop(vm, None)
            if gone is not None and gone.told:
                yield LicenceNotice(text=f"{vm} has its licence", vm=vm, host=host, over=True)
            return
        known = self._guests.setdefault(vm, _Guest(host, profile, now, now))
        if known.host != host or now - known.seen > self._patience_s:
            known.host, known.since = host, now  # it has started again
        known.seen = now
        if not known.told and now - known.since >= self._patience_s:
            known.told = True
            edition = edition_of(profile)
            minutes = int((now - known.since) // 60)
            text = f"the guest of {vm} has had no licence for {minutes} minutes ({profile})"
            yield LicenceNotice(text=text, vm=vm, host=host, edition=edition or "")

    def seats(
        self, licences: Iterable[Licence], used: Mapping[str, int]
    ) -> Iterator[LicenceNotice]:
        """The editions that are nearly used up since the last look, or no longer."""
        for each in licences:
            edition, taken = each.edition.value, used.get(each.edition, 0)
            short = taken >= NEARLY * each.seats
            if short and edition not in self._short:
                self._short.add(edition)
                text = f"licence {edition}: {taken} of {each.seats} seats are used"
                yield LicenceNotice(text=text, edition=edition)
            elif not short and edition in self._short:
                self._short.discard(edition)
                text = f"licence {edition}: {each.seats - taken} of {each.seats} seats are left"
                yield LicenceNotice(text=text, edition=edition, over=True)
