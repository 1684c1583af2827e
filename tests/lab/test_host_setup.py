"""What ``host add --bootstrap`` made of a bare Debian, and that it mends just what is missing."""

from __future__ import annotations

import re

import pytest

from tests.lab.fleet import SETUP_S
from tests.lab.labhost import LabHost, Ran, Vgpumgr

pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600)]

BLACKLIST = "/etc/modprobe.d/vgpumgr-blacklist.conf"
PKI = "/etc/pki/qemu"


@pytest.mark.bounded
def test_the_kernel_runs_as_configured(lab: LabHost) -> None:
    line = lab.root("cat /proc/cmdline").split()
    assert {"intel_iommu=on", "iommu=pt"} <= set(line)
    modules = lab.root("lsmod").split()
    assert {"vfio_pci", "vfio_iommu_type1"} <= set(modules) and "nouveau" not in modules
    unsafe = lab.root("cat /sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts")
    assert unsafe == "N"


@pytest.mark.bounded
def test_nothing_but_ssh_listens(lab: LabHost) -> None:
    listening = lab.root("ss --no-header --tcp --listening --numeric").splitlines()
    outside = [line for line in listening if "127.0.0.1:" not in line and "[::1]:" not in line]
    assert {re.sub(r".*:", "", line.split()[3]) for line in outside} == {"22"}


@pytest.mark.bounded
def test_our_user_may_run_the_helper_and_cannot_widen_that(lab: LabHost) -> None:
    rules = lab.root("sudo -l -U vgpumgr")
    (rule,) = re.findall(r"^ +\(.*", rules, re.M)
    assert rule.strip() == '(root) NOPASSWD: /usr/local/lib/vgpumgr/vgpumgr-helper ""'
    assert lab.root("getent shadow vgpumgr | cut -d: -f2") == "*"
    keys = lab.root("cat ~vgpumgr/.ssh/authorized_keys").splitlines()[1:]
    assert keys and all(line.startswith("restrict ssh-ed25519 ") for line in keys)
    tried = lab.attempt("runuser -u vgpumgr -- sh -c 'echo x >> ~/.ssh/authorized_keys'")
    assert "Permission denied" in tried.stderr


@pytest.mark.bounded
def test_the_certificate_is_for_this_host_and_only_qemu_reads_its_key(lab: LabHost) -> None:
    verify = f"openssl verify -CAfile {PKI}/ca-cert.pem"
    lab.root(f"{verify} -verify_ip {lab.ip} {PKI}/server-cert.pem")
    lab.root(f"{verify} -verify_hostname {lab.name} {PKI}/client-cert.pem")
    assert lab.attempt(f"{verify} -verify_hostname lab9 {PKI}/server-cert.pem").returncode != 0
    assert lab.root(f"stat -c '%U:%G %a' {PKI}/server-key.pem") == "root:libvirt-qemu 640"
    assert lab.attempt(f"runuser -u libvirt-qemu -- head -c 1 {PKI}/client-key.pem").stdout == "-"
    assert lab.attempt(f"runuser -u nobody -- head -c 1 {PKI}/client-key.pem").stdout == ""


def test_another_set_up_mends_what_is_missing_and_then_changes_nothing(
    lab: LabHost, vgpumgr: Vgpumgr
) -> None:
    lab.root(f"rm {BLACKLIST}; virsh --quiet -c qemu:///system pool-autostart default --disable")
    dry = set_up(lab, vgpumgr, "--check", code=10)
    assert "+blacklist nouveau" in dry.out and "libvirt: Have the storage pool" in dry.out
    assert lab.attempt(f"test -e {BLACKLIST}").returncode == 1

    mended = set_up(lab, vgpumgr)
    assert re.findall(r"^lab1  (\w+): .*: changed$", mended.err, re.M) == [
        "driver_blacklist", "driver_blacklist", "libvirt",
    ]  # fmt: skip
    assert "lab1: 0 changes" in set_up(lab, vgpumgr).err


def set_up(lab: LabHost, vgpumgr: Vgpumgr, *more: str, code: int = 0) -> Ran:
    return vgpumgr(
        *("host", "add", lab.name, "--address", lab.address, "--bootstrap", *more),
        *("-e", "vgpumgr_lab=true"),
        code=code,
        timeout_s=SETUP_S,
    )
