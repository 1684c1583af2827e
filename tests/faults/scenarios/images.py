"""Images brought to hosts, and taken away again."""

from __future__ import annotations

from dataclasses import replace

from tests.faults import commands
from tests.faults.scenario import Place, Scenario
from tests.faults.scenarios.ways import OVERLAY
from tests.simworld import host, vm

_HOSTS = (host("T4"), host("T4", name="h2"))
_ON_ONE = commands.import_image("h1")
_IMPORT, _RETIRE = commands.import_image(), commands.retire_image("cad@1")


def _enrolled(place: Place) -> None:
    place.enrol("h1", "h2")


def _imported(place: Place) -> None:
    _IMPORT(place.app)


def _imported_on_one(place: Place) -> None:
    _ON_ONE(place.app)


def _used(place: Place) -> None:
    disk = replace(OVERLAY, image="cad@1")
    place.cordon("h2", on=True)
    place.apply(vm("desk", disks=(disk,)))
    place.cordon("h2", on=False)


SCENARIOS = (
    Scenario(
        operation="image import",
        part="two hosts",
        hosts=_HOSTS,
        command=_IMPORT,
        prepare=(_enrolled,),
        several=True,
    ),
    Scenario(
        operation="image import",
        part="one more host",
        hosts=_HOSTS,
        command=commands.import_image("h2"),
        prepare=(_enrolled, _imported_on_one),
    ),
    Scenario(
        operation="image retire",
        part="with copies",
        hosts=_HOSTS,
        command=_RETIRE,
        prepare=(_enrolled, _imported, _used),
        several=True,
    ),
)
