"""``os:`` says what machine a guest takes, and what contradicts it is refused."""

from __future__ import annotations

import pytest

from vgpumgr import guests
from vgpumgr.spec import SpecError, load

HEAD = "apiVersion: vgpumgr/v1\nkind: VM\nname: a\n"


def loaded(*lines: str):
    [vm] = load(HEAD + "\n".join(lines) + "\n", "a.yaml").vms
    return vm


def test_windows_11_has_a_tpm_and_secure_boot_without_being_told():
    assert (loaded("os: windows-11").tpm, loaded("os: windows-11").secure_boot) == (True, True)
    server = loaded("os: windows-server-2025")
    assert (server.tpm, server.secure_boot, server.os) == (False, False, "windows-server-2025")


@pytest.mark.parametrize(
    "line, says",
    [
        ("tpm: false", "starts with a TPM 2.0 alone: leave tpm out"),
        ("secure_boot: false", "starts with secure boot alone: leave secure_boot out"),
        ("firmware: bios", "starts from uefi alone: leave firmware out"),
        ("vcpus: 1", "is installed on 2 vCPUs or more"),
        ("memory: 2GiB", "is installed with 4 GiB or more"),
    ],
)
def test_a_machine_that_the_system_does_not_take_is_refused(line, says):
    with pytest.raises(SpecError, match=says):
        loaded("os: windows-11", line)


def test_an_unknown_system_is_refused_with_the_known_ones():
    with pytest.raises(SpecError, match=r"windows-server-2025; did you mean windows-11\?"):
        loaded("os: windows-12")


@pytest.mark.parametrize("name", guests.systems())
def test_each_system_is_whole(name):
    system = guests.system(name)
    assert system.title
    assert guests.system_of_id(system.id) == name
    assert bool(system.hyperv) == system.is_windows == bool(system.drivers)
