"""``screen`` of VMs and pools: read, refused, and in the domain's XML and back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.domainxml.test_plan_xml import PLAN
from vgpumgr import catalog, domainxml
from vgpumgr.model.domain import MdevHostdev, Screen
from vgpumgr.model.host import Versions
from vgpumgr.spec import SpecError, load
from vgpumgr.spec.dump import vm_document

VM = "apiVersion: vgpumgr/v1\nkind: VM\nname: a\n"
VERSIONS = Versions(libvirt="9.0.0", qemu="7.2.0", kernel="6.1")


def test_it_asks_for_an_emulated_screen_where_no_vgpu_shows_one() -> None:
    [vm] = load(f"{VM}screen: {{heads: 2, resolution: 1920x1080}}\n", "f.yaml").vms
    assert (vm.console, vm.screen) == (True, Screen(heads=2, width=1920, height=1080))
    assert vm_document(vm)["screen"] == {"heads": 2, "resolution": "1920x1080"}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("screen: {heads: 0}", "screen.heads"),
        ("screen: {heads: 17}", "screen.heads"),
        ("screen: {resolution: big}", "is not a width and a height"),
        ("screen: {resolution: 1920x99999}", "is not a width and a height"),
        ("gpus: [{profile: T4-4Q}]\ndisplay: true\nscreen: {heads: 5}", "T4-4Q has 4 at most"),
        (
            "gpus: [{profile: T4-4Q}]\ndisplay: true\nscreen: {resolution: 9000x4000}",
            "T4-4Q shows 7680x4320 at most",
        ),
    ],
)
def test_what_cannot_be_is_refused(lines: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        load(f"{VM}{lines}\n", "f.yaml")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("screen", "model"),
    [(Screen(heads=2), "virtio"), (Screen(width=1280, height=800), "vga")],
)
def test_it_is_in_the_domain_and_read_back(screen: Screen, model: str) -> None:
    shown = replace(PLAN, graphics=True, screen=screen, hostdevs=())
    xml = domainxml.render(shown, VERSIONS)
    assert f'<model type="{model}"' in xml
    assert domainxml.validate(xml).problems == ()
    assert domainxml.parts(xml).settings["screen"] == str(screen)
    assert domainxml.described(xml).screen == screen


def test_a_vgpus_screen_is_the_guests() -> None:
    shown = MdevHostdev(uuid="c0ffee00-0000-4000-8000-000000000001", display=True)
    made = replace(PLAN, graphics=True, screen=Screen(heads=2), hostdevs=(shown,))
    assert "screen" not in domainxml.parts(domainxml.render(made, VERSIONS)).settings


def test_limits_come_from_the_catalogue() -> None:
    assert {each.heads for each in catalog.screen_limits("T4-4Q")} == {4}
    assert catalog.screen_limits("no-such-type") == ()
