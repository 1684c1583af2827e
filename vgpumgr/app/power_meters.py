"""The meters of power budgets, each read by a thread of its own: one that is away costs itself
alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from vgpumgr.model.actor import carried
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.power import MeterReading, PowerBudget, PowerMeter
from vgpumgr.model.role_binding import EVERY_TENANT
from vgpumgr.model.secret import SecretValue

# Readings that are older are none of now.
LONGEST_S = 90.0

ReadSecret = Callable[[str, str], SecretValue]


class PowerMeters:
    """Reads what is asked for in the background, and gives what was read last."""

    def __init__(self, secret: ReadSecret, now: Callable[[], float] = time.time) -> None:
        self._secret = secret
        self._now = now
        self._guard = threading.Lock()
        self._running: set[str] = set()
        self._last: dict[str, MeterReading] = {}

    def newest(self, budgets: Sequence[PowerBudget]) -> tuple[MeterReading, ...]:
        """The last readings of now, one for each budget with a meter; begins the next ones."""
        wanted = {each.name: each.meter for each in budgets if each.meter is not None}
        with self._guard:
            known = [self._last[name] for name in wanted if name in self._last]
        for name, meter in wanted.items():
            self._begin(name, meter)
        return tuple(each for each in known if self._now() - each.at <= LONGEST_S)

    def _begin(self, name: str, meter: PowerMeter) -> None:
        with self._guard:
            if name in self._running:
                return
            self._running.add(name)
        threading.Thread(
            target=carried(self._read), args=(name, meter), name=f"meter {name}", daemon=True
        ).start()

    def _read(self, name: str, meter: PowerMeter) -> None:
        at = self._now()
        try:
            found = self._asked(name, meter, at)
        except VgpumgrError as error:
            why = f"{error.message}: {error.why}" if error.why else error.message
            found = MeterReading(budget=name, at=at, error=why)
        except Exception as defect:  # a meter must not end what others are read by
            found = MeterReading(budget=name, at=at, error=f"{type(defect).__name__}: {defect}")
        with self._guard:
            self._last[name] = found
            self._running.discard(name)

    def _asked(self, name: str, meter: PowerMeter, at: float) -> MeterReading:
        from vgpumgr.redfish.meter_readings import read_meter
        from vgpumgr.redfish.redfish_client import RedfishClient, RedfishLogin

        password = self._secret(EVERY_TENANT, meter.secret).reveal() if meter.secret else b""
        login = RedfishLogin(
            url=meter.url,
            user=meter.user,
            password=password.decode(errors="replace").rstrip("\r\n"),
            certificate=meter.certificate,
        )
        with RedfishClient(login) as client:
            return read_meter(client, name, at)
