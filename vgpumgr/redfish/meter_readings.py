"""What PDUs and coolant units measure: power of outlets, total power, temperatures of coolant.

Trees: PowerEquipment/RackPDUs/*/{Metrics,Outlets/*} (DSP0268), ThermalEquipment/CDUs/*/
{Primary,Secondary}CoolantConnectors/*, and Chassis/*/EnvironmentMetrics for all else.
"""

from __future__ import annotations

from collections.abc import Iterator

from vgpumgr.model.errors import HostRefused, OutcomeUnknown
from vgpumgr.model.power import MeterReading
from vgpumgr.redfish.redfish_client import ROOT, RedfishClient, Resource

# A service that lists without end is not followed without end.
MOST_MEMBERS, MOST_READINGS = 64, 512
_MOST_WATTS = 10_000_000.0
_LEAST_C, _MOST_C = -60.0, 250.0
_CONNECTORS = ("PrimaryCoolantConnectors", "SecondaryCoolantConnectors")
_TEMPERATURES = ("SupplyTemperatureCelsius", "ReturnTemperatureCelsius")


def read_meter(client: RedfishClient, budget: str, at: float) -> MeterReading:
    """All that the service measures; what is out of range or no number is left out, by name."""
    root = client.get(ROOT)
    found = _Readings()
    for pdu in _members(client, root, "PowerEquipment", "RackPDUs"):
        _read_pdu(client, pdu, found)
    for unit in _members(client, root, "ThermalEquipment", "CDUs"):
        _read_coolant(client, unit, found)
    if found.total is None:
        for chassis in _members(client, root, "Chassis"):
            metrics = _linked(client, chassis, "EnvironmentMetrics")
            found.add_total(metrics, "PowerWatts", _name(chassis))
    return MeterReading(
        budget=budget,
        at=at,
        watts=found.total,
        outlets=found.outlets,
        coolant_c=found.coolant,
        unread=tuple(found.unread[:MOST_MEMBERS]),
    )


class _Readings:
    def __init__(self) -> None:
        self.total: float | None = None
        self.outlets: dict[str, float] = {}
        self.coolant: dict[str, float] = {}
        self.unread: list[str] = []

    def add_total(self, resource: Resource, key: str, name: str) -> None:
        watts = self._number(resource, key, name, 0.0, _MOST_WATTS)
        if watts is not None:
            self.total = (self.total or 0.0) + watts

    def add_outlet(self, resource: Resource, name: str) -> None:
        watts = self._number(resource, "PowerWatts", name, 0.0, _MOST_WATTS)
        if watts is not None and len(self.outlets) < MOST_READINGS:
            self.outlets[name] = watts

    def add_coolant(self, resource: Resource, key: str, name: str) -> None:
        celsius = self._number(resource, key, name, _LEAST_C, _MOST_C)
        if celsius is not None and len(self.coolant) < MOST_READINGS:
            self.coolant[name] = celsius

    def _number(
        self, resource: Resource, key: str, name: str, least: float, most: float
    ) -> float | None:
        """The ``Reading`` of a sensor excerpt."""
        sensor = resource.get(key)
        told = sensor.get("Reading") if isinstance(sensor, dict) else None
        if told is None:
            return None
        good = isinstance(told, int | float) and not isinstance(told, bool)
        if not good or not least <= told <= most:
            self.unread.append(f"{name} {key}")
            return None
        return float(told)


def _read_pdu(client: RedfishClient, pdu: Resource, found: _Readings) -> None:
    name = _name(pdu)
    found.add_total(_linked(client, pdu, "Metrics"), "PowerWatts", name)
    for outlet in _listed(client, pdu.get("Outlets")):
        found.add_outlet(outlet, f"{name}/{_name(outlet)}")


def _read_coolant(client: RedfishClient, unit: Resource, found: _Readings) -> None:
    for kind in _CONNECTORS:
        for connector in _listed(client, unit.get(kind)):
            for key in _TEMPERATURES:
                side = "supply" if key.startswith("Supply") else "return"
                name = f"{_name(unit)}/{_name(connector)}/{side}"
                found.add_coolant(connector, key, name)


def _members(client: RedfishClient, root: Resource, *names: str) -> Iterator[Resource]:
    """The members of the collection at the end of these links; none where one is missing."""
    here = root
    for name in names[:-1]:
        here = _linked(client, here, name)
    yield from _listed(client, here.get(names[-1]))


def _listed(client: RedfishClient, link: object) -> Iterator[Resource]:
    listed = _followed(client, link).get("Members")
    for member in (listed if isinstance(listed, list) else [])[:MOST_MEMBERS]:
        found = _followed(client, member)
        if found:
            yield found


def _linked(client: RedfishClient, resource: Resource, name: str) -> Resource:
    return _followed(client, resource.get(name))


def _followed(client: RedfishClient, link: object) -> Resource:
    """The resource of a link; empty where there is none, or the service does not have it."""
    path = link.get("@odata.id") if isinstance(link, dict) else None
    if not isinstance(path, str):
        return {}
    try:
        return client.get(path)
    except (HostRefused, OutcomeUnknown):
        return {}


def _name(resource: Resource) -> str:
    """Its id, without what a label or a terminal should not see."""
    told = resource.get("Id")
    text = told if isinstance(told, str) else "?"
    return "".join(each for each in text if each.isprintable())[:64] or "?"
