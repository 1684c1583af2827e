"""Descriptions of VMs as files: what is read of those that are not whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from vgpumgr.cli.takeover_files import descriptions
from vgpumgr.model.errors import UsageError


def test_a_byte_that_is_no_utf8_keeps_no_vm_of_a_node_from_coming(tmp_path: Path) -> None:
    (tmp_path / "101.conf").write_bytes(b"name: a\n")
    (tmp_path / "102.conf").write_bytes(b"#B\xfcro\nname: b\n")
    texts = [text for _, text in descriptions([str(tmp_path)], "proxmox")]
    assert texts == ["name: a\n", "#B\\xfcro\nname: b\n"]


def test_a_domain_that_is_no_utf8_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_bytes(b"<domain>\n<name>\xfc</name></domain>")
    with pytest.raises(UsageError, match=r"a\.xml is no UTF-8 text") as refused:
        descriptions([str(tmp_path)], "libvirt")
    assert refused.value.why == "byte 0xfc in line 2"
