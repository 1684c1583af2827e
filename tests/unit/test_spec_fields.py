"""A field cannot be forgotten: each field of the specs of VMs, pools and layouts is wherever a
field has to be, or is listed here with the reason why not.

CONTRIBUTING.md says where a new field goes. What these tests know of a field comes from the
example of its key (vgpumgr/spec/document_schema.py). The last test leaves a field out of each place
in turn.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fakes import FakeHost
from tests.unit.spec.test_key_pages import FLAVOURS, LEAST, models
from vgpumgr import domainxml
from vgpumgr.domainxml.plan_xml import OPTIONAL_DEVICES
from vgpumgr.engine.ledger_recovery import rebuilt_records
from vgpumgr.engine.planning.changed_fields import changed_fields
from vgpumgr.engine.pools import pool_apply
from vgpumgr.engine.reservation import domain_plan
from vgpumgr.engine.reservation.vm_volumes import SEED_BYTES, VmSite, attached
from vgpumgr.model.allocation import Allocation
from vgpumgr.model.codec import from_plain, to_plain
from vgpumgr.model.domain import VolumeFacts
from vgpumgr.model.host import HostRecord
from vgpumgr.model.layout import GpuLayout, KeptLayout, LayoutSpec
from vgpumgr.model.load_scale import GroupScale
from vgpumgr.model.pool import PoolSpec
from vgpumgr.model.vm import SWITCHES, ChangeReach, Terms, VmRecord, VmSpec, VmState, change_reach
from vgpumgr.model.vm_backup import OwnBackups, RetentionRules
from vgpumgr.spec import dump, load
from vgpumgr.spec.document_schema import KEYS
from vgpumgr.spec.layout_document import LayoutModel
from vgpumgr.spec.pool_document import PoolModel
from vgpumgr.spec.vm_document import VmModel

DOCS = Path(__file__).parents[2] / "docs"
SPECS: dict[str, type] = {"VM": VmSpec, "Pool": PoolSpec, "Layout": LayoutSpec}
MODELS = {"VM": VmModel, "Pool": PoolModel, "Layout": LayoutModel}

# Fields that no example of a key sets, by a line of a document that does.
MORE_LINES = {
    "VM": ["gpus: [{profile: A40-8Q, model: [A40, A40-48Q]}]"],
    "Pool": [
        "gpus: [{profile: A40-8Q, model: [A40, A40-48Q]}]",
        "names: 'cad-{n}-berlin'",
    ],
    "Layout": ["gpus: [{vfs: max, model: A40}]"],
}
NOT_IN_A_FILE = {
    "CloudInit.digest": "stands for a seed's text where the text may not be kept",
    "CloudInit.instance_id": "what a restored VM's guest knows; contract/backup_cases.py",
    "DiskSpec.restored": "where a restored VM's disk came from; contract/backup_cases.py",
}
NO_PART_OF_THE_SPEC = {
    "apiVersion": "the format of the document",
    "kind": "the format of the document",
    **dict.fromkeys(
        ("rolling", "at_once", "wait_for", "within"),
        "how a change is carried out, which is over when the VM is as its file says",
    ),
}
NOT_IN_A_DOMAIN = {
    "VmSpec.policy": "placement's, for the ledger alone",
    "VmSpec.affinity": "placement's, for the ledger alone",
    "Affinity.hosts": "placement's, for the ledger alone",
    "Affinity.host_labels": "placement's, for the ledger alone",
    "Affinity.together_with": "placement's, for the ledger alone",
    "Affinity.apart_from": "placement's, for the ledger alone",
    "VmSpec.labels": "written for people who read the XML; they change without the domain",
    "VmSpec.tenant": "a quota's, for the ledger alone",
    "CloudInit.instance_id": "in the seed, which is not read",
    "DiskSpec.restored": "where its content came from once, for the ledger alone",
    "VmSpec.queue": "how it waited, which is over",
    "VmSpec.scale": "how many replicas there are, for the ledger alone",
    **dict.fromkeys(
        (
            *("GroupScale.group", "GroupScale.least", "GroupScale.most", "GroupScale.policy"),
            *("ScalePolicy.triggers", "ScalePolicy.sustained_s", "ScalePolicy.cooldown_s"),
            *("ScaleTrigger.metric", "ScaleTrigger.threshold"),
        ),
        "how many replicas there are, for the ledger alone",
    ),
    **dict.fromkeys(
        (
            *("VmSpec.backup", "OwnBackups.target", "OwnBackups.every_s", "OwnBackups.keep"),
            *("RetentionRules.last", "RetentionRules.daily", "RetentionRules.weekly"),
        ),
        "how it is backed up, for the ledger alone",
    ),
    "VmSpec.guest": "in the seed, which is not read",
    **dict.fromkeys(
        (
            *("GuestSpec.profiles", "GuestSpec.user", "GuestSpec.password", "GuestSpec.locale"),
            *("GuestSpec.time_zone", "GuestSpec.product_key", "GuestSpec.within_s"),
            *("ChosenProfile.name", "ChosenProfile.parameters"),
        ),
        "in the seed, which is not read",
    ),
    "VmSpec.flavour": "what its file was filled with, for the ledger alone",
    "Terms.priority": "how it waited, which is over",
    "Terms.spot": "how it waited, which is over",
    "Terms.runtime_s": "how it waited, which is over",
    "Terms.after": "how it waited, which is over",
    "Terms.together": "how it waited, which is over",
    "Terms.await_hosts": "how it waited, which is over",
    "VmSpec.gpus": "its claims say what it holds, not what it asked for",
    "GpuRequest.memory_mib": "its claims say what it holds, not what it asked for",
    "GpuRequest.model": "its claims say what it holds, not what it asked for",
    "GpuRequest.models": "its claims say what it holds, not what it asked for",
    "GpuRequest.framework": "its claims say what it holds, not what it asked for",
    "GpuRequest.frame_rate_limiter": "its claims say what it holds, not what it asked for",
    "VmSpec.display": "a device of the claims shows it; tests/unit/engine/test_amnesia.py",
    "VmSpec.pin_cpus": "placement's CPUs show it: test_pinning_and_numa_node_come_back",
    "VmSpec.numa": "placement's node shows it: test_pinning_and_numa_node_come_back",
    "CloudInit.user_data": "on a disk of the guest's, as text that may be secret",
    "CloudInit.network_config": "on a disk of the guest's, as text that may be secret",
    "CloudInit.template": "filled in when the seed was made",
    "CloudInit.digest": "of a text that is not read",
    "DiskSpec.image_format": "a copy's image left no trace; an overlay's is read with its volume",
}
# Keys whose example says what the least document says.
IN_THE_LEAST = {
    *("VM.gpus", "Pool.gpus", "Pool.image", "EntitlementModel.users", "Layout.gpus"),
}
# These hold values whose own fields are looked at one by one.
HOLDERS = {"VmSpec.disks", "VmSpec.cloud_init"}
NOT_IN_POOLS = {
    "replicas": "a pool has as many desktops as min, spare and max say",
    "autostart": "serve starts desktops",
    "pin_cpus": "CPUs that no other VM may have would stand idle with each spare",
    "numa": "a desktop is placed as VMs are by default",
    "hugepages": "memory set aside for spares would be lost to all else",
    "queue": "a pool's priority says which pool comes first",
    "uuid": "each desktop has one of its own",
    "rolling": "its update says how many desktops get a new image at a time",
    "backup": "a desktop is made from its image, and is not backed up",
}
NO_DESKTOPS_FIELDS = {
    *("NicSpec.mac", "VmSpec.uuid"),
    *("VmSpec.autostart", "VmSpec.pin_cpus", "VmSpec.numa", "VmSpec.hugepage_kib", "VmSpec.queue"),
    *("VmSpec.scale", *(f"GroupScale.{each.name}" for each in fields(GroupScale))),
    *(f"Terms.{each.name}" for each in fields(Terms)),
    *("VmSpec.backup", *(f"OwnBackups.{each.name}" for each in fields(OwnBackups))),
    *(f"RetentionRules.{each.name}" for each in fields(RetentionRules)),
}


def fields_of(kind: Any) -> Iterator[str]:
    """``VmSpec.name``, ``DiskSpec.pool``, …: of a spec and of all values in it."""
    yield from dict.fromkeys(_fields_of(kind))


def _fields_of(kind: Any) -> Iterator[str]:
    if is_dataclass(kind):
        for name, hint in typing.get_type_hints(kind).items():
            yield f"{kind.__name__}.{name}"
            yield from _fields_of(hint)
    for part in typing.get_args(kind):
        yield from _fields_of(part)


def said(value: object) -> set[tuple[str, str]]:
    """The fields that are not at their default, with their values, of a spec and what it holds."""
    found = set()
    if is_dataclass(value) and not isinstance(value, type):
        for each in fields(value):
            part = getattr(value, each.name)
            usual = each.default_factory() if each.default_factory is not MISSING else each.default
            if part != usual:
                found |= {(f"{type(value).__name__}.{each.name}", repr(part)), *said(part)}
    elif isinstance(value, tuple | list):
        for part in value:
            found |= said(part)
    return found


@dataclass(frozen=True)
class Example:
    """A spec, and the key whose example it has beside the least document of its kind."""

    model: str
    key: str
    spec: Any


def loaded(kind: str, line: str = "") -> Any:
    """The spec of the least document with a line more."""
    extra = yaml.safe_load(line) or {}
    least = {"apiVersion": "vgpumgr/v1", "kind": kind, **LEAST[kind]}
    if "host_labels" in extra:
        del least["hosts"]
    documents = load(yaml.safe_dump({**least, **extra}), "example.yaml", flavours=FLAVOURS)
    found = {"VM": documents.vms, "Pool": documents.pools, "Layout": documents.layouts}
    return next(iter(found[kind]))


@cache
def base(kind: str) -> Any:
    return loaded(kind)


def examples(kind: str) -> list[Example]:
    """One for each key, and more lines without one."""
    found = [
        Example(model, key, loaded(kind, told.example))
        for model in models(kind)
        for key, told in KEYS[model].items()
        if not (model != kind and model == "VM")
    ]
    return found + [Example("", line, loaded(kind, line)) for line in MORE_LINES[kind]]


def difference(kind: str, example: Example) -> set[tuple[str, str]]:
    """What an example says that the least document does not."""
    return said(example.spec) - said(base(kind))


# -- the checks; each fails with the names of what was forgotten -----------------------------------


def check_change(spec: type = VmSpec) -> None:
    """A change of the field is classified: it says how far it reaches."""
    forgotten = [each.name for each in fields(spec) if "reach" not in each.metadata]
    assert not forgotten, f"say how far a change reaches, in vgpumgr/model/vm.py: {forgotten}"


def check_keys_set_fields(kind: str, spec: type | None = None) -> None:
    """Each field is set by some key of the document."""
    set_by_keys = {name for each in examples(kind) for name, _ in difference(kind, each)}
    known = set_by_keys | {name for name, _ in said(base(kind))} | set(NOT_IN_A_FILE)
    if kind == "Pool":
        known |= NO_DESKTOPS_FIELDS
    forgotten = set(fields_of(spec or SPECS[kind])) - known
    assert not forgotten, f"no key of kind {kind} sets {sorted(forgotten)}"


def check_keys_reach_the_spec(kind: str) -> None:
    """Each key changes something in the spec."""
    forgotten = [
        f"{each.model}.{each.key}"
        for each in examples(kind)
        if each.key not in NO_PART_OF_THE_SPEC and not difference(kind, each)
    ]
    unseen = set(forgotten) - IN_THE_LEAST
    assert not unseen, f"the spec does not have what these keys say: {sorted(unseen)}"


def check_documents(kind: str) -> None:
    """A spec is written as a document, and read as the same spec."""
    write: Callable[[Any], Mapping[str, Any]] = (
        dump.vm_document if kind == "VM" else dump.layout_document
    )
    for each in examples(kind):
        if getattr(each.spec, "queue", None) and each.spec.queue.together:
            continue  # its name is that of the document, which a VM of its own does not have
        if getattr(each.spec, "scale", None):
            continue  # the document is that of its group: a VM of its own is no replica
        text = yaml.safe_dump(write(each.spec))
        documents = load(text, "written.yaml", flavours=FLAVOURS)
        [read] = documents.vms if kind == "VM" else documents.layouts
        lost = said(each.spec) ^ said(read)
        assert read == each.spec, f"{each.key} is lost in vgpumgr/spec/dump.py: {sorted(lost)}"


def rebuilt(spec: VmSpec, old: VmSpec | None = None, **place: Any) -> VmSpec:
    """The spec that recovery finds on a host: in the domain of that spec, and in its volumes."""
    facts = FakeHost().probe()
    stem = f"{spec.name}-{'0' * 8}"
    volumes = [(each.pool, f"{stem}-{number}") for number, each in enumerate(spec.disks)]
    if spec.cloud_init:
        volumes.append((spec.cloud_init.pool, f"{stem}-seed"))
    names = [*(each for each, _ in volumes), *(cd.pool for cd in spec.cds)]
    pools = tuple(replace(facts.pools[0], name=each, path=f"/pools/{each}") for each in names)
    facts = replace(facts, pools=pools)
    asked = (replace(each, vlan=None) for each in spec.sriov_nics)
    vfs = {f"0000:3b:02.{number}": each for number, each in enumerate(asked)}
    record = VmRecord(
        id="00000000-0000-4000-8000-000000000000",
        spec=spec,
        host="h1",
        state=VmState.ACTIVE,
        running=False,
        generation=2,
        volumes=tuple(volumes),
        nic_functions=tuple(vfs),
        **place,
    )
    site = VmSite("fleet", HostRecord(name="h1", address="local"), facts, {}, {})
    xml = domain_plan.domain_xml(record, (), site)
    domain = replace(domainxml.parse(xml), autostart=site.autostarts(spec))
    drives = domainxml.disks(xml)
    disks = [
        rebuilt_records.RebuiltDisk(read, each.pool, each.name, _volume(spec, number))
        for number, (each, read) in enumerate(zip(attached(record), drives, strict=False))
    ]
    for cd, read in zip(spec.cds, drives[len(disks) :], strict=True):
        disks.append(rebuilt_records.RebuiltDisk(read, cd.pool, cd.image, None))
    read_back = rebuilt_records.RebuiltDomain(xml, tuple(disks), vfs)
    if old is not None:
        before = replace(record, spec=old, generation=1)
        return rebuilt_records.changed_vm(before, domain, read_back, "h1", 0.0).spec
    found = rebuilt_records.new_vm(domain, read_back, "h1", 0.0)
    held = [_allocation(each.profile) for each in spec.gpus for _ in range(each.count)]
    return rebuilt_records.with_gpus(found, held).spec


def _volume(spec: VmSpec, number: int) -> VolumeFacts:
    """As libvirt shows it: a copied image is a disk like any other."""
    if number == len(spec.disks):
        return VolumeFacts(pool="", name="", path="", capacity_bytes=SEED_BYTES, format="raw")
    disk = spec.disks[number]
    overlay = f"/pools/{disk.pool}/{disk.image}" if disk.mode == "overlay" else None
    return VolumeFacts(
        pool=disk.pool,
        name="",
        path="",
        capacity_bytes=disk.size_bytes,
        format=disk.format,
        backing_path=overlay,
    )


def _allocation(profile: str) -> Allocation:
    return Allocation(
        id="a",
        vm_id="v",
        vm="a",
        host="h1",
        gpu="g",
        profile=profile,
        framework="mdev",
        device="",
        slots=(),
    )


def check_domains() -> None:
    """A VM that the ledger lost comes back from its domain with the field."""
    for each in examples("VM"):
        if any(disk.mode == "copy" for disk in each.spec.disks):
            continue  # a copied image left no trace
        want = {pair for pair in said(each.spec) if pair[0] not in NOT_IN_A_DOMAIN.keys() | HOLDERS}
        lost = want - said(rebuilt(each.spec))
        assert not lost, f"{each.key} is not found in a domain again: {sorted(lost)}"


def check_changed_domains() -> None:
    """A VM that was changed after the ledger's copy was made has the field as changed."""
    for each in examples("VM"):
        for name, _ in difference("VM", each):
            owner, _, field = name.partition(".")
            if owner != "VmSpec" or name in NOT_IN_A_DOMAIN:
                continue
            if change_reach(field) in {ChangeReach.DEFINITION, ChangeReach.FLAG}:
                found = rebuilt(each.spec, old=replace(each.spec, **{field: before(field)}))
                assert getattr(found, field) == getattr(each.spec, field), (
                    f"{field} is not read from a changed domain: vgpumgr/engine/ledger_recovery"
                )


def before(field: str) -> Any:
    return getattr(base("VM"), field)


def check_pools(vm: type[VmModel] = VmModel) -> None:
    """A key of VMs is one of pools, and means the same for each desktop."""
    keys = set(vm.model_fields) - set(PoolModel.model_fields)
    forgotten = keys - set(NOT_IN_POOLS)
    assert not forgotten, f"a pool has not the keys {sorted(forgotten)}, and no reason why not"
    for each in examples("VM"):
        # A pool's own scale counts its desktops: none of these is a replica.
        other = {"name", "disks", "scale", *NOT_IN_POOLS, *NO_PART_OF_THE_SPEC}
        if each.model != "VM" or each.key in other:
            continue
        desktop = loaded("Pool", KEYS["VM"][each.key].example).desktop
        lost = difference("VM", each) - said(desktop)
        assert not lost, f"a pool's desktops lack {sorted(lost)}: vgpumgr/spec/pool_document.py"


def check_docs(pages: Mapping[str, str]) -> None:
    """Each key has a line on the page of its kind."""
    text = "\n".join(pages.values())
    forgotten = [
        f"{model}.{key}"
        for kind in SPECS
        for model, part in models(kind).items()
        for key in part["properties"]
        if f"| `{key}` |" not in text and f"| **`{key}`** |" not in text
    ]
    assert not forgotten, f"no line in docs for {forgotten}: run python tools/list_keys.py"


def pages() -> dict[str, str]:
    return {kind: (DOCS / f"{kind.lower()}.md").read_text() for kind in SPECS}


# -- the tests -------------------------------------------------------------------------------------


def test_a_change_of_each_field_is_classified() -> None:
    check_change()


def test_each_switch_is_a_key() -> None:
    forgotten = set(SWITCHES) - set(VmModel.model_fields)
    assert not forgotten, f"vgpumgr/spec/vm_document.py has no key for {sorted(forgotten)}"


@pytest.mark.parametrize("kind", SPECS)
def test_each_field_is_set_by_a_key(kind: str) -> None:
    check_keys_set_fields(kind)


@pytest.mark.parametrize("kind", SPECS)
def test_each_key_reaches_the_spec(kind: str) -> None:
    check_keys_reach_the_spec(kind)


@pytest.mark.parametrize("kind", ["VM", "Layout"])
def test_a_spec_is_written_as_a_document_and_read_again(kind: str) -> None:
    """No command writes a pool's document: its file is the user's."""
    check_documents(kind)


@pytest.mark.parametrize("kind", SPECS)
def test_the_ledger_keeps_each_field(kind: str) -> None:
    for each in examples(kind):
        assert from_plain(SPECS[kind], to_plain(each.spec)) == each.spec, each.key


def test_a_field_that_a_domain_shows_comes_back_from_it() -> None:
    check_domains()


def test_a_field_that_was_changed_in_a_domain_comes_back_changed() -> None:
    check_changed_domains()


def test_pinning_and_numa_node_come_back() -> None:
    spec = replace(base("VM"), pin_cpus=True, numa="require")
    found = rebuilt(replace(spec, vcpus=2), cpus=(4, 5), numa_node=0)
    assert (found.pin_cpus, found.numa) == (True, "require")


def test_a_desktop_of_a_pool_has_what_a_vm_has() -> None:
    check_pools()


def test_each_key_has_a_line_in_the_docs() -> None:
    check_docs(pages())


def test_a_change_of_a_vm_is_said() -> None:
    for each in examples("VM"):
        lines = changed_fields(base("VM"), each.spec)
        assert bool(lines) is (each.spec != base("VM")), each.key


def test_a_change_of_a_pool_is_said() -> None:
    for each in examples("Pool"):
        lines = pool_apply.changes(base("Pool"), each.spec)
        assert bool(lines) is (each.spec != base("Pool")), each.key


def test_a_host_keeps_each_part_of_a_layout_for_its_next_boot() -> None:
    assert {each.name for each in fields(KeptLayout)} == {each.name for each in fields(GpuLayout)}


def test_no_reason_is_given_for_a_field_that_there_is_not() -> None:
    there = {name for spec in SPECS.values() for name in fields_of(spec)}
    assert NOT_IN_A_FILE.keys() | NOT_IN_A_DOMAIN.keys() | HOLDERS <= there
    assert NOT_IN_POOLS.keys() <= set(VmModel.model_fields) - set(PoolModel.model_fields)


# -- and these tests themselves --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeUpSpec(VmSpec):
    """A VM with a field that is nowhere else."""

    made_up: bool = False


class MadeUpModel(VmModel):
    """A document with a key that pools do not have."""

    made_up: bool = False


def _without(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(each for each in values if each != "agent")


def _patch(place: str, values: Any) -> Callable[[pytest.MonkeyPatch], None]:
    module, _, name = place.rpartition(".")
    return lambda patch: patch.setattr(import_module(f"vgpumgr.{module}"), name, values)


def _nothing(patch: pytest.MonkeyPatch) -> None:
    """The made-up field is left out already."""


_FIELD_LINE = "| `agent` |"
FORGOTTEN: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], Callable[[], None]]] = {
    "change": (_nothing, lambda: check_change(MadeUpSpec)),
    "key": (_nothing, lambda: check_keys_set_fields("VM", MadeUpSpec)),
    "pool": (_nothing, lambda: check_pools(MadeUpModel)),
    "value": (
        _patch("spec.vm_document.SWITCHES", _without(SWITCHES)),
        lambda: check_keys_reach_the_spec("VM"),
    ),
    "document": (
        _patch("spec.dump._OTHER_WORDS", {*dump._OTHER_WORDS, "agent"}),
        lambda: check_documents("VM"),
    ),
    "domain": (
        _patch("engine.reservation.domain_plan.OPTIONAL_DEVICES", _without(OPTIONAL_DEVICES)),
        check_domains,
    ),
    "described": (
        _patch("domainxml.described", lambda xml: _described_without(xml)),
        check_domains,
    ),
    "rebuilt": (
        _patch("engine.ledger_recovery.rebuilt_records._SHOWN", _without(rebuilt_records._SHOWN)),
        check_changed_domains,
    ),
    "docs": (
        _nothing,
        lambda: check_docs({kind: text.replace(_FIELD_LINE, "") for kind, text in pages().items()}),
    ),
}


_described = domainxml.described


def _described_without(xml: str) -> domainxml.Described:
    found = _described(xml)
    return replace(found, optional_devices=_without(found.optional_devices))


@pytest.mark.parametrize("place", FORGOTTEN)
def test_a_field_that_is_left_out_of_one_place_is_missed(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "agent" in OPTIONAL_DEVICES
    forget, check = FORGOTTEN[place]
    forget(monkeypatch)
    with pytest.raises(AssertionError, match=r"agent|made_up"):
        check()
