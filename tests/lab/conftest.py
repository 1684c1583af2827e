"""The lab host for tests: enrolled by the command line, or reached through the ports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.labhost import LabHost, Vgpumgr
from vgpumgr.hosts import enrol
from vgpumgr.hosts.real import RealHosts
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ports import Host


@pytest.fixture(scope="session")
def lab() -> LabHost:
    """The running lab host."""
    return LabHost.find()


@pytest.fixture(scope="module")
def lab_host(lab: LabHost, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """It with the helper installed, through the ports; taken away again."""
    config = lab.ssh_config(tmp_path_factory.mktemp("ssh"))
    real = RealHosts(ssh_config=config, identity=lambda: ("contract", 1))
    record = enrol.pin(
        real, HostRecord(name="lab", address=lab.address), lab.fingerprint, _nobody_asks
    )
    lab.may_use_sudo(True)
    enrol.install(real, record)
    yield real.open(record)
    enrol.uninstall(real, record)
    real.close()


def _nobody_asks(name: str, key: str) -> None:
    raise AssertionError(f"{name} showed {key}, which nobody pinned")


@pytest.fixture(scope="module")
def enrolled(
    lab: LabHost, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Vgpumgr, dict[str, Any]]]:
    """A fleet of this one host, and the host's dump right after ``host add``.

    From then on gpuadm has nothing but the sudo rule that ``host add`` left.
    """
    folder = tmp_path_factory.mktemp("lab")
    vgpumgr = Vgpumgr(folder, lab.ssh_config(folder))
    lab.may_use_sudo(True)
    vgpumgr("host", "add", "lab", "--address", lab.address, "--fingerprint", lab.fingerprint)
    lab.may_use_sudo(False)
    yield vgpumgr, lab.dump()
    lab.may_use_sudo(True)
    vgpumgr("host", "remove", "lab", "-y")
    assert lab.root("ls -A /var/lib/vgpumgr /usr/local/lib/vgpumgr 2>/dev/null; true") == ""


@pytest.fixture
def vgpumgr(lab: LabHost, enrolled: tuple[Vgpumgr, dict[str, Any]]) -> Iterator[Vgpumgr]:
    """The program; after each test all VMs are deleted, and the host is as after ``host add``."""
    program, before = enrolled
    yield program
    ours = [name for name, vm in program.vms().items() if vm["owner"] == "vgpumgr"]
    if ours:
        program("vm", "delete", *ours, "-y", "--force")
    assert lab.settled(before) == before
