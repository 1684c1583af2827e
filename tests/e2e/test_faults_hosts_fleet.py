"""The hosts of ``make faults-hosts``: the program enrols one, and a VM comes and goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import nshosts
from tests.faults_hosts import world
from tests.faults_hosts.fleet import IMAGE, Fleet
from vgpumgr.app.composition import App
from vgpumgr.app.config import Config
from vgpumgr.model.vm import GpuRequest, VmSpec
from vgpumgr.model.vm_devices import DiskMode, DiskSpec

pytestmark = [pytest.mark.root, pytest.mark.libvirtd]


def test_a_vm_with_an_emulated_device_runs_on_such_a_host(tmp_path: Path) -> None:
    if why := nshosts.missing():
        pytest.skip(why)
    fleet = Fleet(1, tmp_path)
    app = App(
        Config(
            ledger=str(tmp_path / "ledger.sqlite"),
            state_dir=tmp_path / "state",
            ssh_config=fleet.ssh_config,
        )
    )
    try:
        for record in fleet.records.values():
            app.engine.ledger.add_host(record)
        app.engine.refresh(list(fleet.records))
        disk = DiskSpec(mode=DiskMode.COPY, image=IMAGE, image_format="raw", format="raw")
        wanted = VmSpec(
            name="one",
            vcpus=1,
            memory_mib=32,
            firmware="bios",
            gpus=(GpuRequest(profile="mtty-1"),),
            disks=(disk,),
        )
        app.engine.apply([wanted])[1].raise_for_failure()
        [seen] = world.dump(str(tmp_path / "ledger.sqlite"), fleet.hosts)["hosts"].values()
        assert [each["name"] for each in seen["domains"]] == ["one"]
        assert len(seen["probe"]["mdevs"]) == 1
        app.engine.delete(["one"], keep_disks=False, force=True).raise_for_failure()
        [seen] = world.dump(str(tmp_path / "ledger.sqlite"), fleet.hosts)["hosts"].values()
        assert not seen["domains"] and not seen["probe"]["mdevs"]
    finally:
        app.close()
        fleet.close()
