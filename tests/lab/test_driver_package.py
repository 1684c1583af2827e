"""The role that installs a vGPU host driver, with a package of ours in the driver's place."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.fleet import SETUP_S
from tests.lab.labhost import LabHost, Ran, Vgpumgr

pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600)]

PACKAGE = "lab-vgpu-host-driver"
SERVICES = ("nvidia-vgpud.service", "nvidia-vgpu-mgr.service")
CONTROL = f"""Package: {PACKAGE}
Version: 1.0
Architecture: all
Maintainer: lab <lab@localhost>
Description: stands in for a vGPU host driver
"""
UNIT = """[Unit]
Description=stands in for a driver's service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true
[Install]
WantedBy=multi-user.target
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for name, text in {
        "DEBIAN/control": CONTROL,
        **{f"lib/systemd/system/{service}": UNIT for service in SERVICES},
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    built = tmp_path / f"{PACKAGE}.deb"
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "--build", root, built], check=True, capture_output=True
    )
    return built


@pytest.fixture
def clean(lab: LabHost) -> Iterator[None]:
    yield
    lab.root(f"apt-get -qq -y purge {PACKAGE} >/dev/null; rm -rf /var/lib/vgpumgr-driver")


@pytest.mark.usefixtures("clean")
def test_a_driver_is_installed_once_and_only_the_file_that_was_meant(
    lab: LabHost, vgpumgr: Vgpumgr, package: Path
) -> None:
    digest = hashlib.sha256(package.read_bytes()).hexdigest()
    other = set_up(lab, vgpumgr, package, "0" * 64, code=1)
    assert "is no .deb or .run file on this machine with the SHA-256" in other.err
    assert lab.attempt(f"dpkg -s {PACKAGE}").returncode != 0

    before = lab.boot_id()
    set_up(lab, vgpumgr, package, digest)
    assert lab.root(f"systemctl is-active {' '.join(SERVICES)}").split() == ["active", "active"]
    assert (after := lab.boot_id()) != before

    assert f"{lab.name}: 0 changes" in set_up(lab, vgpumgr, package, digest).err
    assert lab.boot_id() == after


def set_up(lab: LabHost, vgpumgr: Vgpumgr, package: Path, digest: str, code: int = 0) -> Ran:
    return vgpumgr(
        *("host", "add", lab.name, "--address", lab.address, "--bootstrap"),
        *("-e", "vgpumgr_lab=true"),
        *("-e", f"nvidia_vgpu_host_package={package}", "-e", f"nvidia_vgpu_host_sha256={digest}"),
        code=code,
        timeout_s=SETUP_S,
    )
