"""No text makes a reader of other managers' VMs fail, and every key of it is named exactly once."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lxml import etree

from tests.unit.takeover.test_proxmox import DOCUMENTED
from vgpumgr import takeover
from vgpumgr.spec import load, vm_document
from vgpumgr.takeover import TakenVm, TakeoverChoices, Unreadable
from vgpumgr.takeover.proxmox_config import mapped_devices

pytestmark = pytest.mark.thorough

CASES = Path(__file__).parents[1] / "cases" / "takeover"
XML = {"ovf": "vmware-cad.ovf", "libvirt": "ovirt-viz.xml"}
EXAMPLES = 300
CHOICES = TakeoverChoices(
    gpus={"nvidia-1": "none", "41:00": "A40"}, bridges={"b": "br0", "VM Network": "network:x"}
)
WORDS = st.text(max_size=40) | st.sampled_from(
    [
        *("0", "1", "-1", "9" * 4301, "1" * 25, "9" * 19, "\u0663", "none", "=", ",,=,", "!!x"),
        *("a:b", "local:1/../../x", "virtio=BC:24:11:00:00:01,bridge=b", "{{ name }}", "\x1b[2J"),
        *("0000:41:00,mdev=nvidia-562", "41:00,x-vga=1", "mapping=m,mdev=nvidia-1"),
        *("order=scsi0;scsi0", "uuid=" + "0" * 8, "1" * 300, "\u2028", "\u202e"),
    ]
)
KEYS = st.sampled_from(sorted(DOCUMENTED)) | st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True)


def check(found: TakenVm) -> None:
    """Findings name each key once; a VM without problems is one that `apply` takes."""
    named = [each.key for each in found.findings]
    assert len(named) == len(set(named)) or any("…" in key for key in named)
    assert all(each.text.isprintable() and each.key.isprintable() for each in found.findings)
    assert all(each.isprintable() for each in found.problems), found.problems
    assert found.spec or found.problems
    if found.spec and not found.problems:
        text = yaml.safe_dump(vm_document(found.spec))
        assert load(text, "vm.yaml").vms == (found.spec,)


def read(kind: str, text: str) -> None:
    for found in takeover.read(kind, [("101.conf", text), ("102.conf", text)], CHOICES):
        check(found)


@settings(max_examples=EXAMPLES, deadline=None)
@example("<\U00018d09")
@given(st.text(max_size=400))
def test_any_text(text: str) -> None:
    for kind in takeover.SOURCES:
        read(kind, text)
    with suppress(Unreadable):
        mapped_devices(text)


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(st.tuples(KEYS, WORDS | st.sampled_from(sorted(DOCUMENTED.values())))))
def test_any_configuration_of_proxmox(lines: list[tuple[str, str]]) -> None:
    text = "".join(f"{key}: {value}\n" for key, value in lines)
    read("proxmox", text)
    read("proxmox", "memory: 1024\n" + text)
    for found in takeover.read("proxmox", [("101.conf", text)], CHOICES):
        named = {each.key.partition(".")[0] for each in found.findings}
        told = {line.partition(":")[0] for line in text.splitlines()}
        assert {each for each in named if not each.startswith(("[", "line ", "#"))} <= told


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.data())
def test_any_option_of_a_drive_a_device_or_a_nic(data: st.DataObject) -> None:
    options = {part.partition("=")[0] for value in DOCUMENTED.values() for part in value.split(",")}
    pairs = data.draw(st.lists(st.tuples(st.sampled_from(sorted(options)), WORDS), max_size=8))
    value = ",".join(f"{name}={text}" for name, text in pairs)
    keys = ("scsi0", "net0", "hostpci0", "cpu", "smbios1", "machine", "vga", "boot", "agent")
    read("proxmox", f"memory: 1024\n{data.draw(st.sampled_from(keys))}: {value}\n")


@pytest.mark.parametrize("kind", XML)
@settings(max_examples=EXAMPLES, deadline=None)
@given(data=st.data())
def test_any_change_of_an_xml(kind: str, data: st.DataObject) -> None:
    """Texts, attributes and elements of a good file are replaced, taken out and doubled."""
    root = etree.fromstring((CASES / XML[kind]).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        nodes = [each for each in root.iter() if isinstance(each.tag, str)]
        _change(data, data.draw(st.sampled_from(nodes)))
    read(kind, etree.tostring(root, encoding="unicode"))


def _change(data: st.DataObject, node: etree._Element) -> None:
    word = data.draw(WORDS.filter(lambda text: text.isprintable()))
    parent = node.getparent()
    match data.draw(st.integers(0, 3)):
        case 0:
            node.text = word
        case 1 if node.attrib:
            node.set(str(data.draw(st.sampled_from(sorted(node.attrib)))), word)
        case 2 if parent is not None:
            parent.remove(node)
        case 3 if parent is not None:
            parent.append(etree.fromstring(etree.tostring(node)))


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.data())
def test_any_cut_of_a_good_text(data: st.DataObject) -> None:
    for kind, name in (*XML.items(), ("proxmox", "pve1/qemu-server/106.conf")):
        text = (CASES / name).read_text()
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, len(text)))
        read(kind, text[:start] + text[end:])
