"""An operator's other tasks with the browser alone; docs/web.md tells the clicks of each."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import expect

from tests.e2e.support import Cli
from tests.unit.images.files import qcow2
from tests.web.test_first_day import assert_told
from tests.web.visitor import Visitor
from tests.web.walk import Walk

WRONG = """\
apiVersion: vgpumgr/v1
kind: VM
name: typed-a
vcpu: 2
memory: 4GiB
gpus: [{profile: T4-4Q}]
"""


def test_an_operators_other_tasks(operator: Visitor, cli: Cli, tmp_path: Path) -> None:
    walk = Walk(operator.page, "second-day")
    operator.go("/")
    room(walk)
    file_with_a_typo(walk)
    with walk.task("open the console of a VM"):
        walk.menu("VMs")
        walk.link("desk-a")
        walk.link("Screen")
        expect(walk.page.locator("#console-state")).to_have_text("Connected.")
    with walk.task("resize a pool"):
        walk.menu("Pools")
        walk.link("cad")
        walk.button("Sizes")
        walk.fill(At_most="3")
        walk.button("Change")
        walk.link("Go on")
        walk.sees("at most 3")
    with walk.task("find out why a VM waits"):
        walk.menu("Queue")
        walk.link("late")
        walk.sees("Number 1 in line")
        walk.link("Why")
        walk.sees("A40-48Q")
    image(walk, tmp_path)
    mistake(walk)
    with walk.task("see who did what since yesterday"):
        walk.menu("Trail")
        walk.link("Since yesterday")
        expect(walk.row("host.cordoned").first).to_contain_text("root")
    cli.ok("vm", "delete", "typed-a", "-y", "--force")
    cli.ok("pool", "scale", "cad", "--max", "2")
    assert_told(walk)


def room(walk: Walk) -> None:
    """A GPU with room."""
    with walk.task("find the GPU with the most room"):
        walk.menu("GPUs")
        walk.link("Memory free")
        expect(walk.page.get_by_role("row").nth(1)).to_contain_text("A100")


def file_with_a_typo(walk: Walk) -> None:
    """What is wrong is said at its line, and the text stays."""
    with walk.task("apply a file with a typo, and correct it"):
        walk.menu("Apply")
        walk.fill(Text=WRONG)
        walk.button("Show the plan")
        walk.sees("the text:4")
        walk.sees("vcpus")
        walk.fill(Text=WRONG.replace("vcpu:", "vcpus:"))
        walk.button("Show the plan")
        walk.sees("create typed-a on")
        walk.button("Apply")
        expect(walk.page.get_by_role("heading", name="Apply done")).to_be_visible()


def image(walk: Walk, folder: Path) -> None:
    """A file of the own machine."""
    file = folder / "second.qcow2"
    file.write_bytes(qcow2())
    with walk.task("upload an image"):
        walk.menu("Images")
        walk.link("Upload an image")
        walk.page.get_by_label("File").set_input_files(file)
        walk.fill(Name="second")
        walk.button("Upload")
        expect(walk.page.get_by_role("heading", name=re.compile("done"))).to_be_visible()
        expect(walk.page.get_by_role("link", name="image second@1").first).to_have_attribute(
            "href", "/images/second%401"
        )


def mistake(walk: Walk) -> None:
    """The wrong host is cordoned: its page lifts that."""
    with walk.task("cordon the host of a GPU"):
        walk.menu("GPUs")
        walk.first(walk.page.get_by_role("row").nth(1))
        walk.button("Cordon its host")
        walk.button("Cordon")
        walk.sees("done")
    with walk.task("lift a cordon"):
        walk.link("Go on")
        walk.button("Uncordon")
        walk.button("Uncordon")
        walk.sees("done")
