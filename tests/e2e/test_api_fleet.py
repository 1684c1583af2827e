"""Commands on hosts, GPUs and layouts at a server: the same output and exit status as without."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.apiserver import ApiServer, serving_api
from tests.e2e.support import Cli, host, new_cli, vm


@contextmanager
def made() -> Iterator[Cli]:
    with new_cli() as cli:
        cli.sim_up(host("h1", ("T4", 2)), host("h2", ("H100-SXM5-80GB", 1)), host("h3"))
        cli.ok("apply", "-f", cli.documents(vm("desk", "T4-4Q")))
        yield cli


@pytest.fixture(scope="module")
def api() -> Iterator[ApiServer]:
    with made() as cli, serving_api(cli) as server:
        yield server


def plain(text: str) -> str:
    return re.sub(r"[0-9a-f-]{36}", "…", without_times(text))


def without_times(text: str) -> str:
    return re.sub(
        r"\d+s ago|\b\d+s\b|\"seen_s\": [\d.]+|operation [0-9a-f]{8}|20\d\d-\S+", "…", text
    )


def alike(api: ApiServer, command: str) -> None:
    there, here = api(*command.split()), api.cli(*command.split())
    assert (there.code, without_times(there.out), without_times(there.err)) == (
        here.code,
        without_times(here.out),
        without_times(here.err),
    )


@pytest.mark.parametrize("command", ["map", "gpu list -o wide", "host list"])
def test_a_list_at_a_server_is_the_list(api: ApiServer, command: str) -> None:
    alike(api, command)


READS = """\
map -o json
map --refresh
gpu list
gpu list -o json
gpu list --host h1 -o csv
gpu list --host nope
gpu show h1/0000:41:00.0
gpu show h1/nope
gpu show nope
gpu list --refresh
allocation list
allocation list --released -o json
layout show
layout show h2 -o json
layout show nope
host list -o json
host list -l a=b
host list --refresh -o wide
host show h1
host show h1 -o json
host show nope
host probe
host probe h1 nope
host drain h1 --dry-run
host drain h1 --dry-run -o json
host drain nope --dry-run
host evacuate h1 --dry-run
host evacuate h1
host evacuate h1 --confirm-off h2
host fence h1
host fence h1 --check
host fence h1 --off x --status y
host fence h1 --off "abc" --status "abc"
host migration h1
host remove h1
host set nope --layout auto
host set --layout auto
host trust nope --fingerprint SHA256:x
host upgrade nope
host uncordon nope
host add h9
host add h1 --address sim://h1
host add h9 --address sim://nope
drift
drift h1 -o json
drift nope
drift --ignore-foreign h2
heal
heal -o json
heal --vm nope
heal --lift gpu-nope
heal --lift h1/nope
heal h1 --apply
adopt
adopt -o json
adopt nope
adopt h1 --all
adopt h1 --vm nope
adopt h1 --vm nope --apply
adopt h1 --layout
adopt --all
defrag plan
defrag plan --free 4
defrag plan --free 2 -o json
defrag plan --free 9
defrag plan --for T4-4Q --count 2
defrag plan --for nope
defrag plan --free 1 --for T4-4Q
defrag plan --count 2
defrag apply --free 9
defrag list
defrag list -o json
defrag cancel desk
layout plan
layout plan -f nope.yaml
layout plan -f -
layout assert
layout apply
layout apply -f -
layout export
layout export h2 -o json
layout export h2 --format mig-parted
layout export nope
layout import -
layout import - --host h2
layout import - --host nope
simulate
simulate --add T4-4Q=20
simulate --add T4-4Q=2 -o json
simulate --fail h1 --detailed-exitcode
simulate --add-host h1×2 --add T4-16Q=6
simulate --add nope=2
simulate -f nope.yaml
image list
image list -o json
image show nope
image retire nope
image retire nope@1
audit list --limit 3
audit list --vm desk -o json --limit 2
audit list --since 2d --by nope
doctor h1
doctor nope
doctor -o json
""".splitlines()


@pytest.mark.parametrize("command", READS)
def test_a_read_at_a_server_is_the_read(api: ApiServer, command: str) -> None:
    alike(api, command)


CHANGES = """\
host cordon h1 h2
host cordon h1 nope
host uncordon h1 h2
host set h1 h2 --layout auto
host set --all --layout declared
host migration h1 --address 10.0.0.1 --bandwidth 500MiB
host migration h1 --address 10.0.0.1 --bandwidth nothing
host migration h1 --off
host fence h3 --off ["/bin/true"] --status ["/bin/true"]
host fence h3 --check
host fence h3 --remove
host maintenance h3
host uncordon h3
host maintenance h3 --off
host drain h2
host undrain h2
host drain h1 -o json
host undrain h1
host upgrade h3
host remove h3 -y
host add h3 --address sim://h3 --label use=x
layout plan -f LAYOUT
layout plan -f LAYOUT --detailed-exitcode
layout apply -f LAYOUT
layout apply -f LAYOUT -y
layout apply -f LAYOUT -y
layout show
layout plan
layout assert
layout export h2
layout export h2 --format mig-parted
sim inject h1 reboot
drift --ignore-foreign
heal
heal --apply
heal --apply -y
heal
adopt h2 --layout --apply
vm create a --gpu T4-4Q --vcpus 1 --memory 1GiB --host h1
defrag apply --free 2
defrag apply --free 2 --allow-cold
"""


LAYOUT = """\
apiVersion: vgpumgr/v1
kind: Layout
name: cut
hosts: [h2]
gpus:
  - mig: true
    vfs: max
"""


def test_changes_at_a_server_are_the_changes(tmp_path: Path) -> None:
    """Two fleets are alike, and go through the same."""
    file = tmp_path / "layout.yaml"
    file.write_text(LAYOUT)
    with made() as here, made() as beyond, serving_api(beyond) as there:
        for command in CHANGES.replace("LAYOUT", str(file)).splitlines():
            words = command.split()
            local = here(*words)
            ran = (beyond if words[0] == "sim" else there)(*words)
            assert (command, ran.code, plain(ran.out), plain(ran.err)) == (
                command,
                local.code,
                plain(local.out),
                plain(local.err),
            )
