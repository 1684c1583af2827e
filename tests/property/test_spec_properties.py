"""A document survives the way to the model and back; no input ends in anything but UsageError."""

from __future__ import annotations

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from vgpumgr import catalog
from vgpumgr.model.errors import UsageError
from vgpumgr.model.vm import (
    Affinity,
    CloudInit,
    DiskMode,
    DiskSpec,
    GpuRequest,
    NicSpec,
    NumaPolicy,
    PlacementPolicy,
    VmSpec,
)
from vgpumgr.spec import load, vm_document

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
gpus = st.builds(GpuRequest, profile=profiles, count=st.integers(1, 4), model=st.none() | lines)
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

vms = st.builds(
    VmSpec,
    name=names,
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
)


@given(vms)
@settings(deadline=None)
def test_a_vm_written_as_a_document_and_read_again_is_the_same(spec: VmSpec) -> None:
    text = yaml.safe_dump(vm_document(spec), allow_unicode=True)
    assert load(text, "f.yaml").vms == (spec,)


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


@given(st.sampled_from(["VM", "Host", "Fleet"]), st.dictionaries(keys, values))
@settings(deadline=None)
def test_any_value_in_any_field_ends_in_values_or_a_usage_error(
    kind: str, body: dict[str, object]
) -> None:
    document = {"apiVersion": "vgpumgr/v1", "kind": kind, "name": "a", **body}
    try:
        load(yaml.safe_dump(document, allow_unicode=True), "f.yaml")
    except UsageError as error:
        assert "f.yaml:" in str(error)
