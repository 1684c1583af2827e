"""Layout documents: values, and contradictions refused at once where they stand."""

from __future__ import annotations

import pytest
import yaml

from vgpumgr import catalog
from vgpumgr.model.layout import VFS_MAX, GpuLayout, InstanceGoal, LayoutRule, LayoutSpec, Scheduler
from vgpumgr.spec import SpecError, SpecProblem, layout_document, load

HEAD = "apiVersion: vgpumgr/v1\nkind: Layout\nname: l\nhosts: [h1]\n"


def problem(text: str) -> SpecProblem:
    """The one thing that is wrong with a layout whose lines under the head are these."""
    with pytest.raises(SpecError) as caught:
        load(HEAD + text, "f.yaml")
    (found,) = caught.value.problems
    return found


def rule(text: str) -> LayoutRule:
    """The one rule of a layout, in flow style."""
    (spec,) = load(f"{HEAD}gpus: [{{{text}}}]\n", "f.yaml").layouts
    return spec.rules[0]


def test_every_key_of_a_layout_reaches_the_model() -> None:
    text = """
apiVersion: vgpumgr/v1
kind: Layout
name: seven
host_labels: {site: berlin}
gpus:
  - devices: ["00000000:41:00.0", "0000:C1:00.0"]
    mig: false
    vfs: 32
    mixed_size: true
    scheduler: equal-share
  - model: A100-PCIE-80GB
    vfs: max
    instances:
      - {profile: 3g.40gb, start: 4, compute: [1c.3g.40gb, 2c.3g.40gb]}
      - {profile: 1g.10gb, count: 2}
  - {model: [A30, H100-PCIE-80GB], mig: true, instances: []}
"""
    assert load(text, "f.yaml").layouts == (
        LayoutSpec(
            name="seven",
            host_labels={"site": "berlin"},
            rules=(
                LayoutRule(
                    devices=("0000:41:00.0", "0000:c1:00.0"),
                    layout=GpuLayout(
                        mig=False, vfs=32, mixed_size=True, scheduler=Scheduler.EQUAL_SHARE
                    ),
                ),
                LayoutRule(
                    models=("A100-PCIE-80GB",),
                    layout=GpuLayout(
                        mig=True,
                        vfs=VFS_MAX,
                        instances=(
                            InstanceGoal(
                                profile="3g.40gb", start=4, compute=("1c.3g.40gb", "2c.3g.40gb")
                            ),
                            InstanceGoal(profile="1g.10gb"),
                            InstanceGoal(profile="1g.10gb"),
                        ),
                    ),
                ),
                LayoutRule(
                    models=("A30", "H100-PCIE-80GB"), layout=GpuLayout(mig=True, instances=())
                ),
            ),
        ),
    )


def test_a_part_that_is_not_named_is_left_as_it_is() -> None:
    assert rule("vfs: max") == LayoutRule(layout=GpuLayout(vfs=VFS_MAX))


def test_declared_instances_mean_mig_mode() -> None:
    assert rule("instances: [{profile: 1g.10gb}]").layout.mig is True
    assert rule("instances: [], mig: false").layout == GpuLayout(mig=False, instances=())


A100 = "model: A100-PCIE-80GB"


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ("model: A30", "gpus[0]", "says nothing: add mig, vfs"),
        ("model: A3O, mig: true", "gpus[0].model", "no board 'A3O'; did you mean A30?"),
        ("model: [A30, MI300Y], vfs: 1", "gpus[0].model[1]", "did you mean MI300X?"),
        ("model: [7], mig: true", "gpus[0].model[0]", "must be text"),
        ("devices: ['41:00.0'], mig: true", "gpus[0].devices[0]", "is not a PCI address"),
        ("devices: [7], mig: true", "gpus[0].devices[0]", "is not a PCI address"),
        ("model: A30, devices: ['0000:41:00.0'], mig: true", "gpus[0].model", "leave it out"),
        ("vfs: all", "gpus[0].vfs", "'all' must be max, or a whole number"),
        ("vfs: -1", "gpus[0].vfs", "-1 must be max, or at least 0"),
        ("vfs: 1.5", "gpus[0].vfs", "must be a whole number"),
        ("vfs: true", "gpus[0].vfs", "must be a whole number"),
        ("scheduler: fixed", "gpus[0].scheduler", "did you mean fixed-share?"),
        ("mig: false, instances: [{profile: 1g.10gb}]", "gpus[0].instances", "mig: false"),
        ("mixed_size: true, mig: true", "gpus[0].mixed_size", "no GPU has them with MIG"),
        ("mixed_size: true, instances: [{profile: 1g.10gb}]", "gpus[0].mixed_size", "with MIG"),
        ("mixed_size: true, vfs: 0", "gpus[0].mixed_size", "lost without VFs"),
        ("mixed_size: true, scheduler: fixed-share", "gpus[0].scheduler", "does not work with"),
        ("model: T4, mig: true", "gpus[0].mig", "T4 has no MIG"),
        ("model: T4, vfs: max", "gpus[0].vfs", "T4 creates its vGPUs without VFs"),
        ("model: RTX-PRO-6000-BWE, vfs: max", "gpus[0].vfs", "RTX-PRO-6000-BWE has no vGPUs"),
        ("model: T4, mixed_size: true", "gpus[0].mixed_size", "T4 has no mixed-size mode"),
        ("model: A40, vfs: 8", "gpus[0].vfs", "A40 has 32 VFs or none: write vfs: max"),
        ("model: MI300X, mig: true", "gpus[0].mig", "MI300X is not NVIDIA's"),
        ("model: MI300X, vfs: 3", "gpus[0].vfs", "MI300X is split into"),
        (
            f"{A100}, instances: [{{profile: 1g.10gbb}}]",
            "gpus[0].instances[0].profile",
            "A100-PCIE-80GB has no GPU instance profiles '1g.10gbb'; did you mean 1g.10gb?",
        ),
        (
            f"{A100}, instances: [{{profile: 1g.5gb}}]",
            "gpus[0].instances[0].profile",
            "A100-PCIE-80GB has no GPU instance profiles '1g.5gb'",
        ),
        ("instances: [{profile: 9g.9gb}]", "gpus[0].instances[0].profile", "no board has"),
        ("model: 10de:1eb8, mig: true", "gpus[0].model", "the catalogue has no board '10de:1eb8'"),
        (
            "instances: [{profile: 1g.6gb}, {profile: 1g.10gb}]",
            "gpus[0].instances",
            "no GPU of the catalogue takes these together",
        ),
        (
            f"{A100}, instances: [{{profile: 1g.20gb, count: 5}}]",
            "gpus[0].instances[0]",
            "at most 4 1g.20gb fit on one A100-PCIE-80GB, not 5",
        ),
        (
            f"{A100}, instances: [{{profile: 7g.80gb}}, {{profile: 7g.80gb}}]",
            "gpus[0].instances[1]",
            "at most 1 7g.80gb",
        ),
        (
            "model: A30, instances: [{profile: 1g.6gb+me}, {profile: 2g.12gb+me}]",
            "gpus[0].instances[1]",
            "one instance of a GPU at most has the media engines",
        ),
        (
            f"{A100}, instances: [{{profile: 4g.40gb}}, {{profile: 2g.20gb, count: 2}}]",
            "gpus[0].instances",
            "take 8 compute slices in all, A100-PCIE-80GB has 7",
        ),
        (
            f"{A100}, instances: [{{profile: 3g.40gb, count: 2}}, {{profile: 1g.10gb}}]",
            "gpus[0].instances",
            "take 9 memory slices in all, A100-PCIE-80GB has 8",
        ),
        (
            f"{A100}, instances: [{{profile: 3g.40gb, start: 2}}]",
            "gpus[0].instances[0].start",
            "3g.40gb begins at 0 or 4, not 2",
        ),
        (
            f"{A100}, instances: [{{profile: 3g.40gb, start: 0}}, {{profile: 1g.10gb, start: 3}}]",
            "gpus[0].instances[1].start",
            "overlaps instances[0]",
        ),
        (
            "instances: [{profile: 1g.10gb, start: 0, count: 2}]",
            "gpus[0].instances[0].start",
            "only one instance can begin there",
        ),
        (
            f"{A100}, instances: [{{profile: 3g.40gb, compute: [1c.3g.20gb]}}]",
            "gpus[0].instances[0].compute[0]",
            "did you mean 1c.3g.40gb?",
        ),
        (
            f"{A100}, instances: [{{profile: 3g.40gb, compute: [2c.3g.40gb, 2c.3g.40gb]}}]",
            "gpus[0].instances[0].compute",
            "at most 1 2c.3g.40gb fit in 3g.40gb",
        ),
        (
            f"{A100}, instances: [{{profile: 3g.40gb, compute: [3g.40gb, 1c.3g.40gb]}}]",
            "gpus[0].instances[0].compute",
            "take 4 compute slices, 3g.40gb has 3",
        ),
        ("mig: true}, {mig: true", "gpus[1]", "never reached: gpus[0] is for every GPU"),
        ("model: A30, mig: true}, {model: A30, vfs: max", "gpus[1]", "A30 is in gpus[0] already"),
        (
            "devices: ['0000:41:00.0'], mig: true}, {devices: ['00000000:41:00.0'], vfs: max",
            "gpus[1]",
            "0000:41:00.0 is in gpus[0] already",
        ),
    ],
)
def test_a_contradiction_is_refused_where_it_stands(text: str, path: str, message: str) -> None:
    found = problem(f"gpus: [{{{text}}}]\n")
    assert (found.line, found.path) == (5, path)
    assert message in found.message


def test_a_layout_is_for_named_hosts_or_for_labels() -> None:
    for hosts in ("", "hosts: [a]\nhost_labels: {b: c}\n"):
        head = HEAD.replace("hosts: [h1]\n", hosts)
        with pytest.raises(SpecError, match="exactly one of hosts and host_labels"):
            load(head + "gpus: [{mig: true}]\n", "f.yaml")


def test_two_layouts_of_one_name_are_refused() -> None:
    text = HEAD + "gpus: [{mig: true}]\n"
    with pytest.raises(SpecError, match="duplicate layout name l, first on line 3"):
        load(f"{text}---\n{text}", "f.yaml")


@pytest.mark.parametrize(
    "board", [b for b in catalog.boards() if catalog.mig(b)], ids=lambda b: b.key
)
def test_every_mig_profile_at_its_maximum_is_a_layout(board: catalog.Board) -> None:
    mig = catalog.mig(board)
    assert mig is not None
    for profile in mig.profiles:
        one = f"{{profile: {profile.name}, count: {profile.max_instances}}}"
        assert rule(f"model: {board.key}, instances: [{one}]").layout.mig
        for start in profile.starts:
            rule(f"model: {board.key}, instances: [{{profile: {profile.name}, start: {start}}}]")


def test_a_layout_is_written_as_short_as_a_user_would() -> None:
    text = HEAD + (
        "gpus: [{model: A30, vfs: max, instances: [{profile: 1g.6gb, count: 2}, "
        "{profile: 1g.6gb, start: 3}]}, {devices: ['0000:41:00.0'], mig: false}]\n"
    )
    (spec,) = load(text, "f.yaml").layouts
    assert layout_document(spec) == {
        "apiVersion": "vgpumgr/v1",
        "kind": "Layout",
        "name": "l",
        "hosts": ["h1"],
        "gpus": [
            {
                "model": "A30",
                "mig": True,
                "vfs": "max",
                "instances": [
                    {"profile": "1g.6gb", "count": 2},
                    {"profile": "1g.6gb", "start": 3},
                ],
            },
            {"devices": ["0000:41:00.0"], "mig": False},
        ],
    }
    assert load(yaml.safe_dump(layout_document(spec)), "f.yaml").layouts == (spec,)
