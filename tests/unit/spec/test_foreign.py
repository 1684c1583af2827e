"""Layout files of mig-parted and vgpu-device-manager, in and out (tests/cases/layouts)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.unit.gpu.test_uncatalogued_mig import board as unlisted_board
from tests.unit.gpu.test_uncatalogued_mig import told
from vgpumgr.model.errors import UsageError
from vgpumgr.model.gpu import GpuFacts, MigFacts, MigProfile
from vgpumgr.model.layout import VFS_MAX, GpuLayout, InstanceGoal, LayoutRule, LayoutSpec, Scheduler
from vgpumgr.spec import SpecError, foreign, layout_document, load

CASES = Path(__file__).parents[2] / "cases" / "layouts"
MIG_PARTED = "mig-parted.yaml"
VGPU_DM = "vgpu-device-manager.yaml"


def gpus(model: str, vendor_device: str, *buses: int) -> list[GpuFacts]:
    """GPUs of one board at these buses."""
    return [
        GpuFacts(device=f"0000:{bus:02x}:00.0", path="", model=model, vendor_device=vendor_device)
        for bus in buses
    ]


HGX = gpus("A100-SXM4-80GB", "10de:20b2", 0x81, 0x41, 0xC1, 0xE1)


def read(file: str, config: str, here: Sequence[GpuFacts] = ()) -> foreign.ImportedLayouts:
    """One configuration of a case file."""
    return foreign.read((CASES / file).read_bytes(), file, config, here)


def rules(file: str, config: str, here: Sequence[GpuFacts] = ()) -> tuple[LayoutRule, ...]:
    """The rules of a configuration that is a layout."""
    found = read(file, config, here).layout
    assert found is not None
    return found.rules


def full(*profiles: str) -> tuple[InstanceGoal, ...]:
    """Instances with the compute instance that mig-parted makes in each."""
    return tuple(InstanceGoal(profile=each, compute=(each,)) for each in profiles)


def test_a_device_filter_names_boards_and_an_unknown_one_is_told() -> None:
    found = read(MIG_PARTED, "all-1g.10gb")
    assert found.layout == LayoutSpec(
        name="all-1g-10gb",
        rules=(
            LayoutRule(
                models=("A100-PCIE-80GB", "A100-SXM4-80GB", "H100-PCIE-80GB", "H100-SXM5-80GB"),
                layout=GpuLayout(mig=True, instances=full(*["1g.10gb"] * 7)),
            ),
            LayoutRule(
                models=("A100-PCIE-40GB", "A100-SXM4-40GB"),
                layout=GpuLayout(mig=True, instances=full(*["1g.10gb"] * 4)),
            ),
        ),
    )
    assert found.left_out == (
        "device-filter 0x20F310DE: neither the catalogue nor a probed host has this board",
    )


def test_an_entry_without_a_filter_is_for_the_boards_that_can_do_it_and_never_for_all() -> None:
    for config in ("all-disabled", "all-enabled", "all-1g.10gb.me", "all-4g.96gb.gfx"):
        (rule,) = rules(MIG_PARTED, config)
        assert rule.models
        assert "T4" not in rule.models
    assert rules(MIG_PARTED, "all-4g.96gb.gfx")[0].models[0] == "RTX-PRO-6000-BSE"
    assert rules(MIG_PARTED, "all-disabled", HGX) == (
        LayoutRule(models=("A100-SXM4-80GB",), layout=GpuLayout(mig=False)),
    )
    assert rules(MIG_PARTED, "all-enabled", HGX)[0].layout == GpuLayout(mig=True, instances=())


def test_a_filter_of_boards_that_nobody_knows_is_no_rule_for_every_gpu() -> None:
    text = (
        'version: v1\nmig-configs: {a: [{device-filter: "0x123410DE", devices: all, '
        "mig-enabled: false}]}\n"
    )
    found = foreign.read(text, "f.yaml")
    assert found.layout is None
    assert found.left_out == (
        "device-filter 0x123410DE: neither the catalogue nor a probed host has this board",
    )


UNLISTED = "10de:2324"
TEN = (InstanceGoal(profile="1g.10gb"),) * 2


def unlisted(*profiles: str) -> GpuFacts:
    """A GPU outside the catalogue whose driver tells these MIG profiles."""
    told = tuple(
        MigProfile(name=name, profile_id=n, gpu_slices=1, size=1, starts=(n,))
        for n, name in enumerate(profiles)
    )
    [gpu] = gpus(UNLISTED, UNLISTED, 0x41)
    return replace(gpu, mig=MigFacts(enabled=False, pending=False, profiles=told, instances=()))


def of_unlisted(where: str, *profiles: str, one_host: bool = True) -> foreign.ImportedLayouts:
    """Two ``1g.10gb`` with their compute instances, on a fleet of one such GPU."""
    text = (
        f"version: v1\nmig-configs: {{a: [{{{where}, mig-enabled: true, "
        "mig-devices: {1g.10gb: 2}}]}\n"
    )
    here = [unlisted(*profiles)]
    if one_host:
        return foreign.read(text, "f.yaml", "", here)
    return foreign.read(text, "f.yaml", "", (), here)


FILTERED = 'device-filter: "0x232410DE", devices: all'


def test_a_board_outside_the_catalogue_is_cut_by_what_its_driver_tells() -> None:
    cut = GpuLayout(mig=True, instances=TEN)
    found = of_unlisted(FILTERED, "1g.10gb", "7g.80gb")
    assert found.layout is not None, found.left_out
    assert found.layout.rules == (LayoutRule(models=(UNLISTED,), layout=cut),)
    assert "compute instances are not created ahead" in found.left_out[0]
    numbered = of_unlisted("devices: [0]", "1g.10gb")
    assert numbered.layout is not None
    assert numbered.layout.rules == (LayoutRule(devices=("0000:41:00.0",), layout=cut),)
    everywhere = of_unlisted("devices: all", "1g.10gb", one_host=False).layout
    assert everywhere is not None
    assert LayoutRule(models=(UNLISTED,), layout=cut) in everywhere.rules
    again = replace(found.layout, hosts=("h1",))
    assert load(yaml.safe_dump(layout_document(again)), "f.yaml").layouts == (again,)


def test_a_profile_that_neither_the_catalogue_nor_a_driver_knows_is_told() -> None:
    other = of_unlisted(FILTERED, "1g.12gb")
    assert other.layout is None
    assert "reports no MIG profile 1g.10gb, but 1g.12gb" in other.left_out[0]
    silent = of_unlisted(FILTERED)
    assert silent.layout is None
    assert "reports no MIG profile while MIG is off" in silent.left_out[0]


def test_boards_outside_the_catalogue_go_into_a_file_by_their_pci_id() -> None:
    rule = LayoutRule(models=(UNLISTED,), layout=GpuLayout(mig=True, instances=TEN))
    single = replace(rule, models=(), devices=("0000:41:00.0",))
    for each, where in ((rule, {"device-filter": ["0x232410DE"]}), (single, {"devices": [0]})):
        spec = LayoutSpec(name="cut", rules=(each,), hosts=("h1",))
        text = foreign.write("mig-parted", (spec,), {"h1": [unlisted("1g.10gb")]}).text
        [entry] = yaml.safe_load(text)["mig-configs"]["cut"]
        assert entry["mig-devices"] == {"1g.10gb": 2}
        assert {**entry, **where} == entry


def vgpus_of_unlisted(wanted: str, here: GpuFacts) -> foreign.ImportedLayouts:
    text = f"version: v1\nvgpu-configs: {{a: [{{{FILTERED}, vgpu-devices: {{{wanted}}}}}]}}\n"
    return foreign.read(text, "f.yaml", "", [here])


def test_mig_backed_types_that_a_driver_tells_need_mig_vfs_and_their_gpu_instances() -> None:
    found = vgpus_of_unlisted("H900-3-48C: 1, H900-1-12C: 2", unlisted_board(told()))
    assert found.layout is not None, found.left_out
    profiles = ("3g.48gb", "1g.12gb", "1g.12gb")
    instances = tuple(InstanceGoal(profile=each) for each in profiles)
    cut = GpuLayout(mig=True, vfs=VFS_MAX, instances=instances)
    assert found.layout.rules == (LayoutRule(models=(UNLISTED,), layout=cut),)
    spec = replace(found.layout, name="a", hosts=("h1",))
    written = foreign.write("vgpu-device-manager", (spec,), {"h1": [unlisted_board(told())]})
    [entry] = yaml.safe_load(written.text)["vgpu-configs"]["a"]
    assert entry["vgpu-devices"] == {"H900-3-48C": 1, "H900-1-12C": 2}
    assert entry["device-filter"] == ["0x232410DE"]


@pytest.mark.parametrize(
    ("wanted", "types"),
    [("H900-3-48C: 1", None), ("H900-2-24C: 1", told()), ("H900-24C: 1", told())],
)
def test_types_that_no_driver_tells_are_said_to_be_unknown(
    wanted: str, types: list[dict[str, object]] | None
) -> None:
    found = vgpus_of_unlisted(wanted, unlisted_board(types))
    assert found.layout is None
    assert "10de:2324: neither the catalogue nor its driver knows" in found.left_out[0]


def with_filter(wanted: str) -> foreign.ImportedLayouts | str:
    """What a file with this device-filter says, or why it is refused."""
    text = (
        f'version: v1\nvgpu-configs: {{a: [{{device-filter: "{wanted}", devices: all, '
        "vgpu-devices: {A16-4Q: 1}}]}\n"
    )
    try:
        return foreign.read(text, "f.yaml")
    except SpecError as error:
        return str(error.problems[0].message)


def test_a_filter_with_a_subsystem_names_the_one_board_of_several() -> None:
    found = with_filter("0x25B610DE:0x14A910DE")
    assert not isinstance(found, str), found
    assert found.layout is not None
    assert found.layout.rules[0].models == ("A16",)
    other = with_filter("0x25B610DE:0x157E10DE")
    assert not isinstance(other, str), other
    assert other.layout is None
    assert "A16-4Q: no GPU here supports these" in other.left_out


def test_a_filter_with_a_subsystem_that_is_no_boards_is_told() -> None:
    found = with_filter("0x25B610DE:0x000110DE")
    assert not isinstance(found, str), found
    why = "neither the catalogue nor a probed host has this board"
    said = f"device-filter 0x25B610DE:0x000110DE: {why}"
    assert (found.layout, found.left_out[0]) == (None, said)


def test_a_filter_with_one_of_several_subsystems_of_a_board_tells_that_a_layout_means_all() -> None:
    text = (
        'version: v1\nmig-configs: {a: [{device-filter: "0x20B510DE:0x153310DE", devices: all, '
        "mig-enabled: true, mig-devices: {1g.10gb: 7}}]}\n"
    )
    found = foreign.read(text, "f.yaml")
    assert found.layout is not None
    assert found.layout.rules[0].models == ("A100-PCIE-80GB",)
    assert "means every A100-PCIE-80GB, 1 other subsystem of it included" in found.left_out[0]


@pytest.mark.parametrize("wanted", ["0x25B610DE:", ":0x14A910DE", "0x25B610DE:1:2"])
def test_half_a_filter_is_refused(wanted: str) -> None:
    assert "must be a PCI id like" in str(with_filter(wanted))


def test_a_board_of_the_filter_that_cannot_do_it_is_told_with_the_reason() -> None:
    text = (
        "version: v1\nmig-configs: {a: [{device-filter: ['0x20B510DE', '0x20B710DE'], "
        "devices: all, mig-enabled: true, mig-devices: {1g.6gb: 4}}]}\n"
    )
    found = foreign.read(text, "f.yaml")
    assert found.layout is not None
    assert found.layout.rules[0].models == ("A30",)
    assert found.left_out[0].startswith(
        "A100-PCIE-80GB: A100-PCIE-80GB has no GPU instance profiles"
    )


def test_device_numbers_are_the_hosts_gpus_by_pci_address() -> None:
    assert rules(MIG_PARTED, "custom", HGX) == (
        LayoutRule(devices=("0000:41:00.0", "0000:81:00.0"), layout=GpuLayout(mig=False)),
        LayoutRule(
            devices=("0000:c1:00.0",),
            layout=GpuLayout(mig=True, instances=full("2g.20gb", "2g.20gb", "2g.20gb")),
        ),
        LayoutRule(
            devices=("0000:e1:00.0",),
            layout=GpuLayout(mig=True, instances=full("3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb")),
        ),
    )


def test_device_numbers_without_a_host_are_told_and_left_out() -> None:
    found = read(MIG_PARTED, "custom")
    assert found.layout is None
    assert "devices [0, 1]: numbers mean the GPUs of one host" in found.left_out
    beyond = read(MIG_PARTED, "custom", HGX[:3])
    assert "device 3: the host has 3 NVIDIA GPUs" in beyond.left_out


def test_the_last_entry_that_matches_wins_there_and_the_first_rule_here() -> None:
    assert rules(MIG_PARTED, "last-wins", HGX) == (
        LayoutRule(devices=("0000:81:00.0",), layout=GpuLayout(mig=True, instances=())),
        LayoutRule(models=("A100-SXM4-80GB",), layout=GpuLayout(mig=False)),
    )


def test_small_compute_instances_share_a_gpu_instance() -> None:
    (rule,) = rules(MIG_PARTED, "shared", HGX)
    shared = InstanceGoal(profile="3g.40gb", compute=("2c.3g.40gb", "1c.3g.40gb"))
    one = InstanceGoal(profile="1g.10gb", compute=("1g.10gb",))
    assert sorted(rule.layout.instances or (), key=lambda goal: goal.profile) == [one, one, shared]


def test_time_sliced_types_need_vfs_and_nothing_of_a_board_that_makes_mdevs() -> None:
    found = read(VGPU_DM, "A40-8Q")
    assert found.layout == LayoutSpec(
        name="a40-8q", rules=(LayoutRule(models=("A40",), layout=GpuLayout(vfs=VFS_MAX)),)
    )
    assert found.left_out == (
        "A40-8Q × 6: a vGPU is created for the VM that requests it, not ahead",
    )
    assert read(VGPU_DM, "T4-4Q").layout is None


def test_mig_backed_types_need_mig_vfs_and_their_gpu_instances() -> None:
    ten = (InstanceGoal(profile="1g.10gb"),)
    assert rules(VGPU_DM, "A100D-1-10C") == (
        LayoutRule(
            models=("A100-PCIE-80GB",),
            layout=GpuLayout(mig=True, vfs=VFS_MAX, instances=ten * 7),
        ),
    )
    (media,) = rules(VGPU_DM, "A100D-1-10CME")
    assert media.layout.instances == (InstanceGoal(profile="1g.10gb+me"),)


def test_several_vgpus_share_an_instance_where_the_board_time_slices_in_it() -> None:
    (rule,) = rules(VGPU_DM, "blackwell")
    assert [goal.profile for goal in rule.layout.instances or ()] == [
        "1g.24gb+gfx",
        "1g.24gb+gfx",
        "2g.48gb+gfx",
    ]


def test_types_of_two_sizes_need_mixed_size_mode() -> None:
    assert rules(VGPU_DM, "mixed-sizes") == (
        LayoutRule(models=("L40S",), layout=GpuLayout(vfs=VFS_MAX, mixed_size=True)),
    )


def test_numbered_gpus_of_a_vgpu_file_are_addresses() -> None:
    here = gpus("A40", "10de:2235", 2, 1)
    assert [rule.devices for rule in rules(VGPU_DM, "two-gpus", here)] == [
        ("0000:01:00.0",),
        ("0000:02:00.0",),
    ]


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("version: v2\nmig-configs: {a: []}\n", "version", "must be v1, not 'v2'"),
        ("version: v1\nmig-configs: {}\n", "mig-configs", "at least 1 entry"),
        ("version: v1\nmig-configs: {a: []}\n", "mig-configs.a", "at least 1 entry"),
        ("version: v1\nx: 1\nmig-configs: {a: [{devices: all, mig-enabled: false}]}\n", "x", "key"),
        ("mig-configs: {a: [{device: all}]}", "mig-configs.a[0].device", "did you mean devices?"),
        ("mig-configs: {a: [{devices: some}]}", "mig-configs.a[0].devices", "must be all, or a"),
        ("mig-configs: {a: [{devices: ~}]}", "mig-configs.a[0].devices", "must be all, or a"),
        ("mig-configs: {a: [{devices: [-1]}]}", "mig-configs.a[0].devices[0]", "at least 0"),
        (
            "mig-configs: {a: [{devices: all, device-filter: A100}]}",
            "mig-configs.a[0].device-filter",
            "must be a PCI id like",
        ),
        (
            "mig-configs: {a: [{devices: all, mig-enabled: true}]}",
            "mig-configs.a[0]",
            "needs mig-devices where mig-enabled is true",
        ),
        (
            "mig-configs: {a: [{devices: all, mig-enabled: false, mig-devices: {1g.5gb: 1}}]}",
            "mig-configs.a[0].mig-devices",
            "no MIG devices where mig-enabled is false",
        ),
        (
            "mig-configs: {a: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 0}}]}",
            "mig-configs.a[0].mig-devices",
            "all counts are 0",
        ),
        (
            "mig-configs: {a: [{devices: all, mig-enabled: true, mig-devices: {4c.3g.20gb: 1}}]}",
            "mig-configs.a[0].mig-devices.4c.3g.20gb",
            "is not a MIG profile like 1g.10gb",
        ),
        (
            "vgpu-configs: {a: [{devices: all, vgpu-devices: {A40-8Q: 0}}]}",
            "vgpu-configs.a[0].vgpu-devices.A40-8Q",
            "must be at least 1",
        ),
        (
            "vgpu-configs: {a: [{devices: all, vgpu-devices: {a b: 1}}]}",
            "vgpu-configs.a[0].vgpu-devices.a b",
            "is not a vGPU type like",
        ),
        (
            "vgpu-configs: {a: [{devices: all, vgpu-devices: {A100-4C: 1, A100-1-5C: 1}}]}",
            "vgpu-configs.a[0].vgpu-devices",
            "time-sliced or MIG-backed vGPUs, never both",
        ),
    ],
)
def test_a_foreign_file_is_read_as_strictly_as_ours(text: str, where: str, message: str) -> None:
    head = "" if "version" in text else "version: v1\n"
    with pytest.raises(SpecError) as caught:
        foreign.read(head + text, "f.yaml")
    found = {each.path: each for each in caught.value.problems}
    assert message in found[where].message
    assert found[where].line >= 1


def test_a_foreign_file_needs_a_version() -> None:
    with pytest.raises(SpecError, match="version: is missing"):
        foreign.read("mig-configs: {a: [{devices: all, mig-enabled: false}]}\n", "f.yaml")


@pytest.mark.parametrize("text", ["", "[]", "a: b\n", "apiVersion: vgpumgr/v1\nkind: Layout\n"])
def test_another_file_is_told_to_be_none_of_the_two(text: str) -> None:
    with pytest.raises(UsageError, match="not a layout file of another tool"):
        foreign.read(text, "f.yaml")


def test_a_configuration_is_chosen_by_name() -> None:
    with pytest.raises(UsageError, match="has several") as caught:
        read(MIG_PARTED, "")
    assert "all-disabled, all-enabled, all-1g.10gb" in caught.value.why
    with pytest.raises(UsageError, match="no configuration all-1g10gb") as caught:
        read(MIG_PARTED, "all-1g10gb")
    assert "did you mean all-1g.10gb?" in caught.value.why


CONFIGS = [
    (file, config)
    for file, key in ((MIG_PARTED, "mig-configs"), (VGPU_DM, "vgpu-configs"))
    for config in yaml.safe_load((CASES / file).read_text())[key]
]


@pytest.mark.parametrize(("file", "config"), CONFIGS)
def test_what_is_imported_is_a_layout_of_ours(file: str, config: str) -> None:
    found = read(file, config, HGX if config in {"custom", "last-wins"} else ()).layout
    if found is not None:
        spec = replace(found, hosts=("h1",))
        assert load(yaml.safe_dump(layout_document(spec)), "f.yaml").layouts == (spec,)


@pytest.mark.parametrize("config", [config for file, config in CONFIGS if file == MIG_PARTED])
def test_a_mig_parted_configuration_survives_the_way_in_out_and_in(config: str) -> None:
    here = () if "gfx" in config else HGX
    first = read(MIG_PARTED, config, here).layout
    assert first is not None
    written = foreign.write("mig-parted", [replace(first, hosts=("h",))], {"h": HGX})
    assert written.left_out == ()
    again = foreign.read(written.text, "f.yaml", "", here)
    assert again.layout is not None
    assert (set(again.layout.rules), again.left_out) == (set(first.rules), ())


@pytest.mark.parametrize("config", ["A100D-1-10C", "A100D-1-10CME"])
def test_mig_backed_types_survive_the_way_in_out_and_in(config: str) -> None:
    first = read(VGPU_DM, config).layout
    assert first is not None
    written = foreign.write("vgpu-device-manager", [first])
    assert foreign.read(written.text, "f.yaml").layout == first


def test_what_a_format_has_no_word_for_is_told() -> None:
    layout = GpuLayout(
        mig=True,
        vfs=VFS_MAX,
        instances=(InstanceGoal(profile="1g.6gb", start=3),),
        scheduler=Scheduler.EQUAL_SHARE,
    )
    spec = LayoutSpec(
        name="l",
        hosts=("h",),
        rules=(
            LayoutRule(layout=layout, models=("A30", "MI300X")),
            LayoutRule(layout=GpuLayout(vfs=0), models=("A40",)),
            LayoutRule(layout=GpuLayout(mig=False), devices=("0000:41:00.0",)),
        ),
    )
    written = foreign.write("mig-parted", [spec])
    assert set(written.left_out) == {
        "l: gpus[0]: MI300X is not NVIDIA's",
        "l: gpus[0]: vfs: the format has no word for it",
        "l: gpus[0]: scheduler: the format has no word for it",
        "l: gpus[0]: the tool chooses where an instance begins",
        "l: gpus[0]: the tool creates a compute instance in each GPU instance",
        "l: gpus[1]: says nothing of MIG",
        "l: gpus[2]: 0000:41:00.0: its number on the host is not known",
    }
    assert yaml.safe_load(written.text) == {
        "version": "v1",
        "mig-configs": {
            "l": [
                {
                    "device-filter": ["0x20B710DE"],
                    "devices": "all",
                    "mig-enabled": True,
                    "mig-devices": {"1g.6gb": 1},
                }
            ]
        },
    }


def test_a_layout_that_holds_nothing_of_a_format_is_no_file_of_it() -> None:
    spec = LayoutSpec(name="l", rules=(LayoutRule(layout=GpuLayout(vfs=0), models=("A40",)),))
    for name in foreign.FORMATS:
        with pytest.raises(UsageError, match="nothing of these layouts"):
            foreign.write(name, [spec])
    with pytest.raises(UsageError, match="no format mig_parted") as caught:
        foreign.write("mig_parted", [spec])
    assert "did you mean mig-parted?" in caught.value.why
