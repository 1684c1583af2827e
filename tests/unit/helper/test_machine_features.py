"""A TPM and secure boot are there where their programs and descriptors are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.helper.host import FakeHost
from vgpumgr.helper.facts.machine_features import machine_features

DESCRIPTOR: dict[str, Any] = {
    "interface-types": ["uefi"],
    "targets": [{"architecture": "x86_64", "machines": ["pc-q35-*"]}],
    "features": ["enrolled-keys", "requires-smm", "secure-boot"],
}
PATH = "/usr/share/qemu/firmware/40-enrolled.json"
SWTPM = {"/usr/bin/swtpm": "", "/usr/bin/swtpm_setup": ""}


def seen(**files: str) -> list[str]:
    host = FakeHost()
    host.files |= files
    return machine_features(host)


def test_what_is_installed_is_there() -> None:
    assert seen() == []
    assert seen(**SWTPM) == ["tpm"]
    assert seen(**{PATH: json.dumps(DESCRIPTOR)}) == ["secure-boot"]
    assert seen(**{PATH: json.dumps(DESCRIPTOR), **SWTPM}) == ["secure-boot", "tpm"]


@pytest.mark.parametrize(
    "change",
    [
        {"interface-types": ["bios"]},
        {"features": ["secure-boot"]},
        {"features": 3},
        {"targets": [{"architecture": "aarch64", "machines": ["virt-*"]}]},
        {"targets": [{"architecture": "x86_64", "machines": ["pc-i440fx-*"]}]},
        {"targets": [7]},
    ],
)
def test_other_firmware_is_none_of_it(change: dict[str, Any]) -> None:
    assert seen(**{PATH: json.dumps(DESCRIPTOR | change)}) == []


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "[" * 100_000, json.dumps(DESCRIPTOR | {"x": "y" * 70_000})]
)
def test_a_descriptor_that_is_invalid_is_none(text: str) -> None:
    assert seen(**{PATH: text}) == []
