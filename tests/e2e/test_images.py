"""`vgpumgr image`, and VMs that name an image with its version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.support import Cli, host, names, new_cli, pool
from tests.e2e.support import vm as of_gpu
from tests.unit.images.files import cd, qcow2


@pytest.fixture
def cli() -> Iterator[Cli]:
    with new_cli() as made:
        made.sim_up(host("h1", ("T4", 1)), host("h2", ("T4", 1)))
        yield made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cad.qcow2"
    path.write_bytes(qcow2())
    return path


def over(cli: Cli, name: str, image: str) -> str:
    disk = {"mode": "overlay", "image": image}
    return cli.documents({**of_gpu(name, "T4-4Q"), "disks": [disk]}, name=f"{name}.yaml")


def test_an_image_from_its_file_to_its_end(cli: Cli, file: Path) -> None:
    done = cli.ok("image", "import", str(file), "--name", "cad", "--host", "h2", "-o", "json").json
    assert (done["name"], done["state"], done["source"]) == ("cad@1", "ready", "cad.qcow2")
    [copy] = done["copies"]
    assert (copy["host"], copy["pool"], copy["state"]) == ("h2", "default", "there")
    again = cli.ok("image", "import", str(file), "--name", "cad", "--host", "h2")
    assert "this file is cad@1 already: the same content; nothing was copied" in again.err

    desk = over(cli, "desk", "cad@1")
    cli.ok("apply", "-f", desk)
    assert [each["host"] for each in cli.items("vm", "list")] == ["h2"]
    assert "1 VM" in cli.ok("apply", "-f", desk).out
    explained = cli.ok("explain", "-f", over(cli, "next", "cad@1"))
    assert "h1 has no copy of image cad@1 in storage pool 'default'" in explained.out
    assert "copied to h1 now" in cli.ok("image", "import", str(file), "--name", "cad").err
    [image] = cli.items("image", "list")
    assert ({each["host"] for each in image["copies"]}, image["vms"]) == ({"h1", "h2"}, ["desk"])

    kept = cli.fails(7, "image", "retire", "cad@1", "--delete-copies", "-y")
    assert "on h2 by desk" in kept.err
    assert "used by desk" in cli.ok("image", "show", "cad@1").out
    assert "is retired" in cli.fails(4, "apply", "-f", over(cli, "other", "cad@1")).err
    assert "h2" in cli.fails(4, "image", "retire", "cad@1", "--delete-copies", "-y").err
    cli.ok("vm", "delete", "desk", "--force", "-y")
    assert (
        cli.ok("image", "retire", "cad@1", "--delete-copies", "-y", "-o", "json").json["copies"]
        == []
    )
    assert names(cli.items("image", "list")) == ["cad@1"]
    events = {each["event"] for each in cli.items("audit", "list")}
    assert events >= {"image.imported", "image.copy-there", "image.retired", "image.copy-gone"}


def test_what_is_no_image_or_no_name_is_refused(cli: Cli, file: Path, tmp_path: Path) -> None:
    bring = ("image", "import", str(file), "--name")
    assert "next: " in cli.fails(2, *bring, "cad", "--format", "raw").err
    assert "small letters" in cli.fails(2, *bring, "Cad").err
    assert "version" in cli.fails(2, *bring, "cad", "--version", "../1").err
    cli.fails(3, *bring, "cad", "--host", "h9")
    cli.fails(4, *bring, "cad", "--pool", "slow")
    (tmp_path / "cut").write_bytes(qcow2()[:200_000])
    cut = cli.fails(2, "image", "import", str(tmp_path / "cut"), "--name", "cad", "-o", "json")
    assert (cut.error["code"], "cut off" in cut.error["why"]) == ("usage.image", True)
    cli.fails(3, "image", "import", str(tmp_path / "none"), "--name", "cad")
    cli.fails(2, "image", "retire", "cad")
    assert cli.items("image", "list") == []
    cli.ok(*bring, "cad")
    (tmp_path / "other").write_bytes(qcow2(virtual=1 << 20))
    other = ("image", "import", str(tmp_path / "other"), "--name", "cad", "--version", "1")
    assert "another file" in cli.fails(4, *other).err
    assert "did you mean cad@1" in cli.fails(3, "image", "show", "cad@2").err


def test_a_cd_is_an_image_of_which_no_disk_is_made(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "tools.iso"
    file.write_bytes(cd())
    assert "--format iso" in cli.fails(2, "image", "import", str(file), "--name", "tools",
                                       "--format", "raw").err  # fmt: skip
    done = cli.ok("image", "import", str(file), "--name", "tools", "--format", "iso").out
    assert "tools@1-" in done and ".iso" in done
    refused = cli.fails(2, "apply", "-f", over(cli, "desk", "tools@1"))
    assert "image tools@1 is a CD" in refused.err
    desks = cli.documents(pool(image="tools@1", max=1), name="pool.yaml")
    assert "image tools@1 is a CD" in cli.fails(2, "apply", "-f", desks).err
    cli.ok("image", "retire", "tools@1", "--delete-copies", "-y")


def test_a_bare_volume_is_placed_by_and_plan_and_apply_agree() -> None:
    with new_cli() as cli:
        fleet = [host(n, ("T4", 1)) for n in ("h1", "h2")]
        cli.sim_up(fleet[0], {**fleet[1], "images": ["only-there.qcow2"]})
        desk = over(cli, "desk", "only-there.qcow2")
        [action] = cli.ok("plan", "-f", desk, "-o", "json").json["actions"]
        assert action["host"] == "h2", "where the image lies"
        cli.ok("apply", "-f", desk)
        assert [each["host"] for each in cli.items("vm", "list")] == ["h2"]
        waits = over(cli, "waits", "nobody-has.qcow2")
        for command in ("plan", "apply"):
            assert "nobody-has.qcow2 is not in pool" in cli.fails(3, command, "-f", waits).err
