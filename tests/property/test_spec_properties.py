"""A document survives the way to the model and back; no input ends in anything but UsageError."""

from __future__ import annotations

from collections.abc import Iterable

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from vgpumgr import catalog
from vgpumgr.model.errors import UsageError
from vgpumgr.model.layout import VFS_MAX, GpuLayout, InstanceGoal, LayoutRule, LayoutSpec, Scheduler
from vgpumgr.model.vm import Affinity, GpuRequest, NumaPolicy, PlacementPolicy, Terms, VmSpec
from vgpumgr.model.vm_devices import CloudInit, DiskMode, DiskSpec, NicSpec
from vgpumgr.spec import foreign, layout_document, load, vm_document

names = st.from_regex(r"[a-z0-9][a-z0-9-]{0,62}", fullmatch=True)
VISIBLE = ("L", "N", "P", "S")
lines = st.text(st.characters(categories=VISIBLE, include_characters=" "), min_size=1, max_size=40)
objects = st.text(st.characters(categories=VISIBLE, exclude_characters="/"), max_size=20).map(
    "v{}".format
)
bridges = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}", fullmatch=True)
label_keys = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,20}[A-Za-z0-9])?", fullmatch=True)
labels = st.dictionaries(label_keys, lines, max_size=3)
texts = st.text(st.characters(categories=VISIBLE, include_characters=" \n\t"))
formats = st.sampled_from(["qcow2", "raw"])
sizes = st.integers(1 << 20, 10**15 - 1)  # a size is written with at most 15 digits

profiles = st.sampled_from(sorted(catalog.profiles()))
counted = {"count": st.integers(1, 4), "model": st.none() | lines}
by_size = st.builds(
    GpuRequest,
    memory_mib=st.integers(64, 1 << 20),
    framework=st.sampled_from([None, "passthrough", "mdev", "vfio-vf", "pci-vf"]),
    **counted,
)
limited = st.builds(
    GpuRequest,
    profile=st.just("A40-8Q"),
    framework=st.sampled_from([None, "mdev", "vfio-vf"]),
    frame_rate_limiter=st.booleans(),
    **counted,
)
gpus = st.builds(GpuRequest, profile=profiles, **counted) | by_size | limited
fresh = st.builds(DiskSpec, pool=objects, size_bytes=sizes, format=formats)
copies = st.builds(
    DiskSpec,
    mode=st.just(DiskMode.COPY),
    pool=objects,
    size_bytes=st.just(0) | sizes,
    image=objects,
    image_format=formats,
    format=formats,
)
overlays = st.builds(
    DiskSpec, mode=st.just(DiskMode.OVERLAY), size_bytes=st.just(0) | sizes, image=objects
)
nics = st.builds(NicSpec, bridge=bridges) | st.builds(NicSpec, network=objects)
optional_text = st.none() | texts

terms = st.builds(
    Terms,
    priority=st.integers(-1000, 1000),
    spot=st.booleans(),
    runtime_s=st.none() | st.integers(1, 10**7).map(float),
    after=st.lists(
        names.map("x{}".format).filter(lambda name: len(name) < 64), max_size=2, unique=True
    ).map(tuple),
)
vms = st.builds(
    VmSpec,
    name=names.filter(lambda name: not name.startswith("x")),
    vcpus=st.integers(1, 512),
    memory_mib=st.integers(1, 1000).map(lambda gib: gib * 1024),
    gpus=st.lists(gpus, max_size=4).map(tuple),
    disks=st.lists(fresh | copies | overlays, max_size=3).map(tuple),
    nics=st.lists(nics, max_size=3).map(tuple),
    cloud_init=st.none()
    | st.builds(CloudInit, user_data=optional_text, network_config=optional_text, pool=objects),
    firmware=st.sampled_from(["uefi", "bios"]),
    autostart=st.booleans(),
    pin_cpus=st.booleans(),
    numa=st.sampled_from(NumaPolicy),
    hugepage_kib=st.sampled_from([None, 2048, 1048576]),
    affinity=st.builds(
        Affinity,
        hosts=st.lists(names, max_size=2).map(tuple),
        host_labels=labels,
        together_with=labels,
        apart_from=labels,
    ),
    policy=st.none() | st.sampled_from(PlacementPolicy),
    labels=labels,
    tenant=names,
    queue=st.none() | terms,
)


@given(vms)
@settings(deadline=None)
def test_a_vm_written_as_a_document_and_read_again_is_the_same(spec: VmSpec) -> None:
    text = yaml.safe_dump(vm_document(spec), allow_unicode=True)
    assert load(text, "f.yaml").vms == (spec,)


mig_boards = [each for each in catalog.boards() if catalog.mig(each) and each.host_mode]
counts = st.none() | st.just(VFS_MAX) | st.just(0)
switches = st.none() | st.booleans()
schedulers = st.none() | st.sampled_from(Scheduler)


@st.composite
def instance_goals(draw: st.DrawFn, board: catalog.Board) -> tuple[InstanceGoal, ...]:
    """One profile of a board, as often as it fits, at places or wherever."""
    mig = catalog.mig(board)
    assert mig is not None
    profile = draw(st.sampled_from(mig.profiles))
    compute = draw(st.sampled_from([(), *((each.name,) for each in profile.compute)]))
    number = draw(st.integers(0, profile.max_instances))
    starts = draw(st.just((None,) * number) | st.just(profile.starts[:1]))
    return tuple(InstanceGoal(profile=profile.name, start=at, compute=compute) for at in starts)


@st.composite
def layout_rules(draw: st.DrawFn) -> LayoutRule:
    """A rule for a board with MIG: its instances, or none declared."""
    board = draw(st.sampled_from(mig_boards))
    goals = draw(st.none() | instance_goals(board))
    layout = GpuLayout(
        mig=True if goals else draw(switches),
        vfs=draw(counts),
        instances=goals,
        scheduler=draw(schedulers),
    )
    layout = layout if layout != GpuLayout() else GpuLayout(mig=False)
    return LayoutRule(layout=layout, models=(board.key,))


rule_lists = st.lists(layout_rules(), min_size=1, max_size=4, unique_by=lambda rule: rule.models)
layouts = st.builds(
    LayoutSpec,
    name=names,
    hosts=st.lists(names, min_size=1, max_size=3).map(tuple),
    rules=rule_lists.map(tuple),
)


@given(layouts)
@settings(deadline=None)
def test_a_layout_written_as_a_document_and_read_again_is_the_same(spec: LayoutSpec) -> None:
    text = yaml.safe_dump(layout_document(spec), allow_unicode=True)
    assert load(text, "f.yaml").layouts == (spec,)


@given(layouts)
@settings(deadline=None)
def test_what_is_written_for_mig_parted_asks_for_the_same_instances(spec: LayoutSpec) -> None:
    asked = [each for each in spec.rules if each.layout.mig is not None]
    if not asked:
        return
    text = foreign.write("mig-parted", [spec]).text
    read = foreign.read(text, "f.yaml", spec.name).layout
    assert read is not None
    assert _mig_by_model(read.rules) == _mig_by_model(asked)


def _mig_by_model(rules: Iterable[LayoutRule]) -> dict[str, tuple[bool | None, list[str]]]:
    """MIG mode and compute instances per board; one of full size where none is named."""
    return {
        model: (
            rule.layout.mig,
            sorted(
                name
                for goal in rule.layout.instances or ()
                for name in goal.compute or (goal.profile,)
            ),
        )
        for rule in rules
        for model in rule.models
    }


def test_a_vm_at_its_defaults_is_a_short_document() -> None:
    assert vm_document(VmSpec(name="a", vcpus=2, memory_mib=4096)) == {
        "apiVersion": "vgpumgr/v1",
        "kind": "VM",
        "name": "a",
        "vcpus": 2,
        "memory": "4GiB",
    }


@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode("utf-8")))
@settings(deadline=None)
def test_any_bytes_as_a_foreign_layout_end_in_a_value_or_a_usage_error(data: bytes) -> None:
    try:
        foreign.read(data, "f.yaml")
    except UsageError as error:
        assert all(line.isprintable() for line in str(error).splitlines())


@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode("utf-8")))
@settings(deadline=None)
def test_any_bytes_end_in_values_or_a_usage_error(data: bytes) -> None:
    try:
        load(data, "f.yaml")
    except UsageError as error:
        assert all(line.isprintable() for line in str(error).splitlines())


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
keys = st.sampled_from(
    ["apiVersion", "kind", "name", "gpus", "disks", "networks", "labels", "hosts", "memory", "x"]
)


@given(st.sampled_from(["VM", "Host", "Layout", "Fleet"]), st.dictionaries(keys, values))
@settings(deadline=None)
def test_any_value_in_any_field_ends_in_values_or_a_usage_error(
    kind: str, body: dict[str, object]
) -> None:
    document = {"apiVersion": "vgpumgr/v1", "kind": kind, "name": "a", **body}
    try:
        load(yaml.safe_dump(document, allow_unicode=True), "f.yaml")
    except UsageError as error:
        assert "f.yaml:" in str(error)


entry_keys = st.sampled_from(
    ["devices", "device-filter", "mig-enabled", "mig-devices", "vgpu-devices", "x"]
)


@given(st.sampled_from(["mig-configs", "vgpu-configs"]), st.dictionaries(entry_keys, values))
@settings(deadline=None)
def test_any_value_in_a_foreign_layout_ends_in_a_value_or_a_usage_error(
    key: str, entry: dict[str, object]
) -> None:
    text = yaml.safe_dump({"version": "v1", key: {"a": [entry]}}, allow_unicode=True)
    try:
        foreign.read(text, "f.yaml", "a")
    except UsageError as error:
        assert "f.yaml" in str(error)
