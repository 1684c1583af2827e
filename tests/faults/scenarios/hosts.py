"""Hosts enrolled and removed."""

from __future__ import annotations

from tests.faults import commands
from tests.faults.scenario import Scenario
from tests.simworld import host
from vgpumgr.model.layout import VFS_MAX, GpuLayout

_HOSTS = (host("T4"), host("L40S", name="h2"))

SCENARIOS = (
    Scenario(
        operation="host",
        part="add",
        hosts=_HOSTS,
        command=commands.add_host("h2"),
        prepare=(lambda place: place.enrol("h1"),),
    ),
    Scenario(
        operation="host",
        part="remove",
        hosts=_HOSTS,
        command=commands.remove_host("h2"),
        prepare=(
            lambda place: place.enrol("h1"),
            lambda place: commands.add_host("h2")(place.app),
            lambda place: place.cut(GpuLayout(vfs=VFS_MAX), "h2"),
        ),
    ),
    Scenario(
        operation="host",
        part="forget",
        hosts=_HOSTS,
        command=commands.remove_host("h2", reach=False),
        prepare=(lambda place: place.enrol("h1", "h2"),),
        ends=("again",),
    ),
)
