"""First boots by the real cloud-init: broken inputs are named, and its end alone is no success.

Each guest is an overlay of this machine's root in namespaces of its own (``first_boot.sh``).
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from vgpumgr import guests
from vgpumgr.guests.check_verdict import verdict
from vgpumgr.model.guest import ChosenProfile, GuestAnswer, GuestSpec

pytestmark = [pytest.mark.release, pytest.mark.root, pytest.mark.timeout(1800)]

FACTS = {"name": "a", "host": "h1", "tenant": "t", "driver_branch": "550", "last_gpu": "0"}
MIRROR = {"name": "mirror", "uri": "http://127.0.0.1:9/debian", "suite": "./"}
MONITORED = GuestSpec(user="ada", password="pw", profiles=(ChosenProfile(name="monitoring-agent"),))


def with_profile(profile: str, /, **parameters: str) -> GuestSpec:
    return GuestSpec(profiles=(ChosenProfile(name=profile, parameters=parameters),))


# The guest, its own user data, what befalls it, and the cause that is named; none: all is well.
GUESTS: dict[str, tuple[GuestSpec, str, str, str]] = {
    "well": (MONITORED, "", "", ""),
    "missing-package": (with_profile("docker"), "", "", "nvidia-container-toolkit ended with 100"),
    "no-network": (MONITORED, "", "offline", "prometheus-node-exporter ended with 100"),
    "no-mirror": (
        with_profile("package-repository", **MIRROR),
        "",
        "",
        "the repository mirror was not read",
    ),
    "bad-key": (
        with_profile("package-repository", **MIRROR, key="no key at all"),
        "",
        "",
        "the repository mirror was not read",
    ),
    "no-room": (
        GuestSpec(user="ada"),
        "#cloud-config\nwrite_files: [{path: /srv/data, content: '%s'}]\n" % ("x" * 9000),
        "full",
        "No space left on device",
    ),
    "bad-time-zone": (GuestSpec(time_zone="Mars/Olympus"), "", "", "Mars/Olympus"),
    "bad-command": (
        GuestSpec(user="ada"),
        "#cloud-config\nruncmd: [{a: b}]\n",
        "",
        "runcmd: ",
    ),
    "failing-script": (
        GuestSpec(user="ada"),
        "#cloud-config\nruncmd: ['exit 3']\n",
        "",
        "scripts-user: ",
    ),
}


def booted(folder: Path) -> dict[str, str]:
    """Why each guest is not ready, after all have booted; empty for one that is."""
    for name, (guest, own, befalls, _) in GUESTS.items():
        seed = folder / "seeds" / name
        seed.mkdir(parents=True)
        text = guests.user_data(guest, "debian-12", FACTS, own or None)
        (seed / "user-data").write_text(text)
        programs = [each.run for each in guests.checks(guest, "debian-12", FACTS)]
        (seed / "checks.json").write_text(json.dumps(programs))
        (seed / "meta-data").write_text(json.dumps({"instance-id": name, "local-hostname": name}))
        if befalls:
            (seed / befalls).touch()
    script = Path(__file__).parent / "first_boot.sh"
    argv = ["unshare", "--mount", "--uts", "--pid", "--fork", "bash", script, folder]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=1500, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return {name: _said(folder, name) for name in GUESTS}


def _said(folder: Path, name: str) -> str:
    """Of the checks that were not passed."""
    ended = json.loads((folder / f"{name}.checks").read_text())
    checks = guests.checks(GUESTS[name][0], "debian-12", FACTS)
    found = [
        verdict(check, GuestAnswer(status=status, output=output))
        for check, (status, output) in zip(checks, ended, strict=True)
    ]
    return "; ".join(each.why for each in found if not each.well)


def test_a_first_boot_is_well_or_its_cause_is_named(tmp_path: Path) -> None:
    found = booted(tmp_path)
    causes = {name: cause for name, (*_, cause) in GUESTS.items()}
    other = {
        name: found[name]
        for name, cause in causes.items()
        if (cause not in found[name]) or bool(found[name]) is not bool(cause)
    }
    assert other == {}
