"""What a guest's answers say: each broken guest is named by its cause, and none is a success."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from vgpumgr import guests
from vgpumgr.guests.check_verdict import PASSED, CheckVerdict, quick_verdict, verdict
from vgpumgr.model.guest import ChosenProfile, GuestAnswer, GuestCheck, GuestSpec

FACTS = {"name": "a", "host": "h1", "tenant": "t", "driver_branch": "550", "last_gpu": "0"}
PROFILES = (
    ChosenProfile(name="docker"),
    ChosenProfile(name="nvidia-guest-driver", parameters={"licence_token": "lic"}),
    ChosenProfile(name="slurm-node", parameters={"controller": "c", "munge_key": "k"}),
    ChosenProfile(name="data-mounts", parameters={"source": "nfs:/home", "target": "/home"}),
    ChosenProfile(name="remote-desktop-xrdp"),
    ChosenProfile(
        name="kubernetes-node",
        parameters={"endpoint": "a:1", "token": "t", "ca_hash": f"sha256:{'0' * 64}"},
    ),
)
CHECKS = {
    each.name: each for each in guests.checks(GuestSpec(profiles=PROFILES), "debian-12", FACTS)
}
WINDOWS = guests.checks(GuestSpec(user="a", password="p"), "windows-11", FACTS)[0]


def report(status: str, **more: object) -> str:
    return json.dumps({"status": status, **more})


BROKEN = yaml.safe_load((Path(__file__).parent / "broken_guests.yaml").read_text())


@pytest.mark.parametrize("broken", BROKEN, ids=lambda each: each["cause"][:40])
def test_a_broken_guest_is_named_by_its_cause(broken):
    answer = GuestAnswer(status=broken["status"], output=broken["output"])
    said = verdict(CHECKS[broken["check"]], answer)
    assert not said.well
    assert broken["cause"] in said.why


@pytest.mark.parametrize("uri", ["http://lan:81/debian", "http://lan:81/debian/"])
@pytest.mark.parametrize(
    ("listed", "is_read"),
    [("http://lan:81/debian/\n", True), ("http://lan:81/debian-security/\n", False), ("", False)],
)
def test_a_repository_was_read_when_apt_has_its_index(uri, listed, is_read):
    """apt lists addresses with a slash at their end, however they were written."""
    chosen = ChosenProfile(name="package-repository", parameters={"name": "lan", "uri": uri})
    check = guests.checks(GuestSpec(profiles=(chosen,)), "debian-12", FACTS)[-1]
    assert verdict(check, GuestAnswer(status=0, output=listed)).well is is_read


@pytest.mark.parametrize("status", ["running", "not run", "not started"])
def test_a_first_boot_that_goes_on_says_nothing_yet(status):
    said = verdict(CHECKS["cloud-init"], GuestAnswer(status=0, output=report(status)))
    assert (said.booting, said.final, said.well) == (True, False, False)


def test_what_is_deprecated_does_not_fail_a_guest():
    text = report("done", errors=[], recoverable_errors={"DEPRECATED": ["Deprecated: chpasswd"]})
    assert verdict(CHECKS["cloud-init"], GuestAnswer(status=2, output=text)) == PASSED


def test_the_first_boot_of_windows_is_over_when_its_report_says_so():
    def said(**found: object):
        return verdict(WINDOWS, GuestAnswer(status=0, output=json.dumps(found)))

    failed = {"name": "NVIDIA driver", "status": 1, "output": "setup.exe\r\nerror 5"}
    assert said(over=False, steps=[]).booting
    assert said(over=True, steps=[{"name": "x", "status": 0}]) == PASSED
    assert said(over=True, steps=[failed]).why == "NVIDIA driver failed: error 5"
    assert said(over="true").booting


@pytest.mark.parametrize(
    "output",
    [
        "",
        "\0" * 10_000,
        "[" * 5_000,
        '{"status": {"a": 1}}',
        '{"over": true, "steps": [{"name": {"a": 1}, "output": [1]}]}',
        '{"status": ' + "[" * 900 + "]" * 900 + "}",
        "\ufeff{}",
        '{"errors": "x"}',
        "é" * 9,
    ],
)
def test_nonsense_of_a_guest_is_never_a_success_nor_an_error_of_ours(output):
    for check in (*CHECKS.values(), WINDOWS):
        if check.name in {"container toolkit", "munge", "cluster"}:
            continue  # their exit status is all that they say
        said = verdict(check, GuestAnswer(status=0, output=output))
        assert not said.well
        assert len(said.why) < 500
        assert said.why.isprintable()


def test_a_reason_is_one_line_that_can_be_printed():
    check = GuestCheck(name="x", run=("x",), says="x is broken")
    said = verdict(check, GuestAnswer(status=1, output="first\n\x1b[31mlast\x07 line\n\n"))
    assert said.why == "x is broken: [31mlast  line"


def state(stage=None, finished=2.0, datasource="DataSourceNoCloud [seed=/dev/sr0]", **final):
    """cloud-init's own file of its state, as 22.4 and 25.1 write it."""
    done = {"errors": [], "start": 1.0, "finished": 2.0}
    stages = {each: dict(done) for each in ("init-local", "init", "modules-config")}
    last = {**done, "finished": finished, **final}
    return json.dumps(
        {"v1": {"datasource": datasource, "stage": stage, **stages, "modules-final": last}}
    )


MISSING = "('package_update_upgrade_install', no such package)"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (state(), PASSED),
        (
            state("modules-final", None),
            CheckVerdict(booting=True, why="cloud-init is at work"),
        ),
        (state(None, None), CheckVerdict(booting=True, why="cloud-init is at work")),
        (
            state(errors=[MISSING]),
            CheckVerdict(
                final=True,
                why="cloud-init failed: package_update_upgrade_install: no such package",
            ),
        ),
        (
            state(recoverable_errors={"WARNING": ["no such package"]}),
            CheckVerdict(final=True, why="cloud-init failed: no such package"),
        ),
        (state(recoverable_errors={"DEPRECATED": ["chpasswd"]}), PASSED),
        (
            state(datasource="DataSourceNone"),
            CheckVerdict(final=True, why="cloud-init found no seed: nothing was prepared"),
        ),
        ("{}", None),
        ('{"v1": {}}', None),
        ('{"v1": [1]}', None),
        ('{"v1": {"stage": null, "init": 5}}', None),
        ("no json", None),
    ],
)
def test_the_file_of_cloud_inits_state_says_what_the_command_would(text, said):
    assert quick_verdict(GuestAnswer(status=0, output=text)) == said
    assert quick_verdict(GuestAnswer(status=1, output=text)) is None
