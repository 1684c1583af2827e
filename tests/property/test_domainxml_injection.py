"""No user string can add an element or an attribute: it comes out as itself, or is refused."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lxml import etree

from vgpumgr import domainxml
from vgpumgr.model.codec import to_plain
from vgpumgr.model.domain import (
    DiskTuning,
    DiskType,
    DomainDisk,
    DomainNic,
    DomainPlan,
    MdevHostdev,
    NicTuning,
    Ownership,
    PciHostdev,
    PoolSource,
    VolumePlan,
)
from vgpumgr.model.host import Versions

pytestmark = pytest.mark.mainline

VERSIONS = Versions(libvirt="9.0.0")
DISK = DiskTuning(cache="none", serial="A-1")
NIC = NicTuning(filter="clean-traffic")
PLAN = DomainPlan(
    name="desk-01",
    uuid="6f1c5e4e-8f8e-4d6b-9f29-0f5f1f0c7a01",
    vcpus=2,
    memory_mib=1024,
    accelerator="kvm",
    disks=(
        DomainDisk(path="/pool/a", format="raw", target="vda", tuning=DISK),
        DomainDisk(path="/pool/b", format="raw", target="sda", cdrom=True, tuning=DISK),
    ),
    nics=(
        DomainNic(mac="52:54:00:00:00:01", network="default", tuning=NIC),
        DomainNic(mac="52:54:00:00:00:02", bridge="br0", tuning=NIC),
    ),
    hostdevs=(
        MdevHostdev(uuid="c1b4e2d0-0001-4000-8000-000000000001", display=True),
        PciHostdev(address="0000:41:00.0"),
    ),
    cpu_model="EPYC-Milan",
    graphics=True,
    optional_devices=("agent", "audio"),
    ownership=Ownership(
        fleet="f", vm="desk-01", vm_id="v", generation=1, allocations=("a",), uuid="u"
    ),
    labels={"team": "cad"},
)
VOLUME = VolumePlan(
    pool="default",
    name="disk",
    capacity_bytes=1 << 30,
    format="qcow2",
    mode="overlay",
    source="base",
    source_path="/pool/base",
    source_format="qcow2",
    source_pool="slow",
)

Path = tuple[str | int, ...]


def string_fields(value: object, path: Path = ()) -> Iterator[Path]:
    """Where text lies in a plan, at any depth; found by looking, so a new field is covered."""
    if isinstance(value, str):
        yield path
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from string_fields(getattr(value, field.name), (*path, field.name))
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from string_fields(item, (*path, index))
    elif isinstance(value, dict):
        for key in value:
            yield (*path, key)
            yield (*path, key, "key")


def replaced(value: Any, path: Path, text: str) -> Any:
    if not path:
        return text
    step, rest = path[0], path[1:]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = replaced(getattr(value, str(step)), rest, text)
        return dataclasses.replace(value, **{str(step): changed})
    if isinstance(value, tuple):
        return tuple(
            replaced(item, rest, text) if index == step else item
            for index, item in enumerate(value)
        )
    return {text: value[step]} if rest == ("key",) else {**value, step: text}


def shape(xml: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(str(e.tag), tuple(e.attrib)) for e in etree.fromstring(xml).iter()]


def texts(xml: str) -> set[str]:
    root = etree.fromstring(xml)
    return {e.text or "" for e in root.iter()} | {v for e in root.iter() for v in e.attrib.values()}


HOSTILE = st.one_of(
    st.text(max_size=40),
    st.text(alphabet="<>&'\"=/![]-?; \t\n\ra{}@", max_size=40),
    st.sampled_from(
        [
            '"/><evil a="',
            "]]><evil/>",
            "<!-- ",
            "--><evil/>",
            "&lt;evil/&gt;",
            "&evil;",
            "<?evil?>",
            "' evil='1",
            "{https://vgpumgr.dev/v1}vm",
        ]
    ),
)


def check(render: Any, plan: Any, path: Path, text: str) -> None:
    try:
        xml = render(replaced(plan, path, text))
    except ValueError:
        return
    if not text and path[-1] in UNSAID:
        return
    assert shape(xml) == shape(render(plan))
    assert not any(character < " " for character in text) or path[0] in UNRENDERED
    assert path[0] in UNRENDERED or text in texts(xml) or text.lower() in texts(xml)


# Fields that choose a path through render rather than become text.
UNRENDERED = {
    *("pool", "source", "source_pool", "mode"),
    *("accelerator", "firmware", "uuid", "hostdevs"),
}
# Fields of which nothing is written where they are empty.
UNSAID = {"cache", "serial", "filter", "uuid"}


# How a disk is opened decides what is written of the place where it lies: tested below.
WHERE = {"type", "server"}


@pytest.mark.parametrize(
    "path", [each for each in string_fields(PLAN) if WHERE.isdisjoint(each)], ids=str
)
@settings(deadline=None)  # other work may share the machine
@given(text=HOSTILE)
@example(text="\x00")
@example(text="a\nb")
@example(text="\ud800")
@example(text="\uffff")
def test_no_string_of_a_domain_plan_changes_the_tree(path, text):
    check(lambda plan: domainxml.render(plan, VERSIONS), PLAN, path, text)


SERVER = PoolSource(hosts=("mon1:6789",), name="vms", user="vm", secret="ceph vm")
FAR = DomainDisk(
    path="vms/a", format="raw", target="vda", type=DiskType.NETWORK, server=SERVER, tuning=DISK
)


@pytest.mark.parametrize(
    "path", [("disks", 0, "path"), *(("disks", 0, *p) for p in string_fields(SERVER, ("server",)))]
)
@settings(deadline=None)
@given(text=HOSTILE)
@example(text="[::1]:<evil/>")
def test_no_string_of_a_place_on_the_network_changes_the_elements(path, text):
    def render(plan: DomainPlan) -> str:
        return domainxml.render(plan, VERSIONS)

    plan = dataclasses.replace(PLAN, disks=(FAR,))
    try:
        xml = render(replaced(plan, path, text))
    except ValueError:
        return
    if text or path[-1] != "user":
        assert [tag for tag, _ in shape(xml)] == [tag for tag, _ in shape(render(plan))]


@pytest.mark.parametrize("path", [p for p in string_fields(VOLUME) if p != ("mode",)], ids=str)
@settings(deadline=None)
@given(text=HOSTILE)
@example(text="\x00")
def test_no_string_of_a_volume_plan_changes_the_tree(path, text):
    check(domainxml.volume, VOLUME, path, text)


def test_the_plans_above_exercise_every_field_that_holds_text():
    """A field added to a plan must be filled above, or the property would not see it."""
    for plan in (PLAN, VOLUME, *PLAN.disks[:1], PLAN.ownership):
        unset = [
            field.name
            for field in dataclasses.fields(plan)
            if field.name not in WHERE
            and "str" in str(field.type)
            and getattr(plan, field.name) in (None, "", (), {})
        ]
        assert unset == []
    assert {key for nic in PLAN.nics for key, value in to_plain(nic).items() if value} == {
        "mac",
        "network",
        "bridge",
        "tuning",
    }


@settings(deadline=None)
@given(st.text(max_size=300))
def test_any_text_parses_or_raises_value_error(text):
    for reader in (domainxml.parse, domainxml.validate):
        with_contents = f"<domain><name>n</name>{text}</domain>"
        for xml in (text, with_contents):
            try:
                reader(xml)
            except ValueError:
                continue
