"""The helper as a program: every request gets one JSON answer, and the package travels alone."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.helper.host import (
    CLAIM,
    GPU,
    UUID,
    FakeHost,
    call,
    done,
    gpu_host,
    mtty_host,
    refused,
)
from vgpumgr.helper import VERSION
from vgpumgr.helper.__main__ import answer
from vgpumgr.helper.dispatch import VERBS, handle

spec = importlib.util.find_spec("vgpumgr.helper")
assert spec is not None and spec.origin is not None
PACKAGE = Path(spec.origin).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))

GOOD: dict[str, dict[str, Any]] = {
    "mdev_create": {"parent": "mtty", "type": "mtty-1", "uuid": UUID, "claim": CLAIM},
    "mdev_look": {"uuid": UUID},
    "mdev_remove": {"uuid": UUID, "claim": CLAIM},
    "vfio_bind": {"address": GPU, "claim": CLAIM, "with": []},
    "vfio_look": {"address": GPU},
    "vfio_release": {"address": GPU, "claim": CLAIM},
    "gpu_look": {"gpu": GPU},
    "vgpu_create": {
        "vf": GPU,
        "type": 474,
        "claim": CLAIM,
        "instance": {"gpu": GPU, "profile_id": 19, "start": 2, "size": 1, "make": True},
        "placement_id": 8,
        "params": {"frame_rate_limiter": 0},
    },
    "vgpu_look": {"vf": GPU},
    "vgpu_release": {"vf": GPU, "claim": CLAIM},
    "mig_mode_set": {"gpu": GPU, "enabled": True},
    "vfs_set": {"gpu": GPU, "count": 4},
    "mixed_size_set": {"gpu": GPU, "enabled": True},
    "scheduler_set": {"gpu": GPU, "policy": "equal-share"},
    "gpu_reset": {"gpu": GPU},
    "gi_create": {"gpu": GPU, "profile_id": 19, "size": 1, "compute": [0], "start": 2},
    "gi_destroy": {"gpu": GPU, "id": 7, "profile_id": 19, "start": 2},
    "fabric_activate": {"partition": 13, "gpus": [7], "claim": CLAIM},
    "fabric_deactivate": {"partition": 13, "claim": CLAIM},
    "claim_rename": {"claim": CLAIM},
    "nic_vf_look": {"address": GPU},
    "nic_vf_take": {"address": GPU, "claim": CLAIM, "trust": True, "spoof_check": False},
    "nic_vf_release": {"address": GPU, "claim": CLAIM},
    "tpm_state_read": {"uuid": UUID},
    "tpm_state_write": {"uuid": UUID, "files": {"tpm2-00.permall": "AAAA"}},
    "tpm_state_remove": {"uuid": UUID},
    "image_inspect": {"path": "/pool/a.img", "pool_path": "/pool"},
    "file_digest": {"path": "/pool/a.img", "pool_path": "/pool"},
    "thin_volume_create": {"group": "vg0", "name": "a.raw", "bytes": 1 << 20, "source": "b.raw"},
    "thin_volume_grow": {"group": "vg0", "name": "a.raw", "bytes": 1 << 20},
    "rbd_look": {"pool": "ceph", "name": "a.raw"},
    "rbd_flatten": {"pool": "ceph", "name": "a.raw"},
    "overlay_dissolve": {"path": "/pool/a.img", "pool_path": "/pool", "below": "/pool/b.img"},
}
CODES = {
    *("bad-argument", "not-permitted", "in-use", "claim-mismatch"),
    *("stale-epoch", "not-found", "refused", "unknown"),
}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)


def is_answer(found: dict[str, Any]) -> bool:
    json.dumps(found)
    if found["ok"]:
        return isinstance(found["result"], dict)
    error = found["error"]
    return error["code"] in CODES and bool(error["message"]) and "helper failed" not in str(error)


@given(JSON)
def test_any_json_gets_an_answer(request: Any) -> None:
    assert is_answer(handle(request, FakeHost()))


@given(st.sampled_from(sorted(VERBS)), JSON, JSON, JSON)
def test_any_arguments_of_any_verb_get_an_answer(
    verb: str, args: Any, fleet: Any, epoch: Any
) -> None:
    request = {"verb": verb, "args": args, "fleet": fleet, "epoch": epoch}
    assert is_answer(handle(request, mtty_host()))


@given(st.data())
def test_one_wrong_argument_is_refused_by_name_and_changes_nothing(data: st.DataObject) -> None:
    verb = data.draw(st.sampled_from(sorted(GOOD)))
    name = data.draw(st.sampled_from(sorted(GOOD[verb])))
    value = data.draw(JSON.filter(lambda value: value != GOOD[verb][name]))
    host = mtty_host()
    host.add_function(GPU, driver="nvidia")
    found = call(host, verb, **{**GOOD[verb], name: value})
    assert is_answer(found)
    if not found["ok"] and found["error"]["code"] == "bad-argument":
        assert [path for what, path in host.log if "epoch" not in path] == []


@given(st.sampled_from(["allocation", "generation", "vm", "more"]), JSON)
def test_any_claim_gets_an_answer(field: str, value: Any) -> None:
    found = call(
        mtty_host(), "mdev_create", **{**GOOD["mdev_create"], "claim": {**CLAIM, field: value}}
    )
    assert is_answer(found)


@given(st.binary(max_size=200))
def test_any_bytes_get_an_answer(text: bytes) -> None:
    assert is_answer(answer(text, FakeHost()))


@pytest.mark.parametrize(
    "text", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'"' + b"x" * (1 << 20) + b'"', b"NaN"]
)
def test_what_is_no_request_is_a_bad_argument(text: bytes) -> None:
    assert answer(text, FakeHost())["error"]["code"] == "bad-argument"


@pytest.mark.parametrize(
    ("verb", "change"),
    [
        ("mdev_create", {"uuid": UUID.upper()}),
        ("mdev_create", {"uuid": UUID + "\n"}),
        ("mdev_create", {"uuid": UUID[:-1]}),
        ("mdev_create", {"parent": ".."}),
        ("mdev_create", {"parent": "../../etc"}),
        ("mdev_create", {"parent": "mtty\x00"}),
        ("mdev_create", {"type": "mtty-1/../mtty-2"}),
        ("mdev_create", {"type": ""}),
        ("mdev_create", {"claim": {**CLAIM, "generation": True}}),
        ("mdev_create", {"claim": {**CLAIM, "generation": -1}}),
        ("mdev_create", {"claim": {**CLAIM, "generation": 2**63}}),
        ("mdev_create", {"claim": {**CLAIM, "allocation": "a/b"}}),
        ("mdev_create", {"claim": {**CLAIM, "vm": "a\nb"}}),
        ("mdev_create", {"claim": {**CLAIM, "fleet": "x"}}),
        ("mdev_create", {"claim": None}),
        ("mdev_create", {"force": True}),
        ("vfio_bind", {"address": "41:00.0"}),
        ("vfio_bind", {"address": "0000:41:00.8"}),
        ("vfio_bind", {"address": "0000:41:00.0/.."}),
        ("vfio_bind", {"with": [GPU]}),
        ("vfio_bind", {"with": ["0000:41:00.1"] * 2}),
        ("vfio_bind", {"with": [f"0000:41:0{slot}.1" for slot in range(8)]}),
        ("vfio_bind", {"with": {"0000:41:00.1": 1}}),
        ("image_inspect", {"path": "/pool/../etc/shadow"}),
        ("image_inspect", {"path": "pool/a.img"}),
        ("image_inspect", {"path": "/pool/a\x00"}),
        ("image_inspect", {"path": "/" + "a" * 5000}),
        ("image_inspect", {"pool_path": "/"}),
    ],
)
def test_arguments_that_look_almost_right(verb: str, change: dict[str, Any]) -> None:
    assert refused(gpu_host(), verb, **{**GOOD[verb], **change})["code"] == "bad-argument"


@pytest.mark.parametrize("verb", sorted(name for name, verb in VERBS.items() if verb.controlled))
@pytest.mark.parametrize(
    "wrong", [{"fleet": None}, {"fleet": "a b"}, {"epoch": None}, {"epoch": -1}, {"epoch": True}]
)
def test_a_change_needs_fleet_and_epoch(verb: str, wrong: dict[str, Any]) -> None:
    host = gpu_host()
    request = {"verb": verb, "args": GOOD.get(verb, {}), "fleet": "f", "epoch": 1, **wrong}
    assert handle(request, host)["error"]["code"] == "bad-argument"
    assert host.log == []


@pytest.mark.parametrize("verb", sorted(name for name, verb in VERBS.items() if verb.changes))
def test_a_change_without_root_is_not_permitted(verb: str) -> None:
    host = gpu_host()
    host.is_root = False
    assert refused(host, verb, **GOOD.get(verb, {}))["code"] == "not-permitted"
    assert host.log == []


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_changes_wait_for_the_hosts_lock_and_looks_do_not(verb: str) -> None:
    host = gpu_host()
    with host.lock("/run/vgpumgr/lock"):
        found = call(host, verb, **GOOD.get(verb, {}))
    if VERBS[verb].changes:
        assert (found["error"]["code"], found["error"]["errno"]) == ("refused", "EAGAIN")
        assert host.log == []
    else:
        assert found.get("error", {}).get("errno") != "EAGAIN"


def test_a_defect_of_ours_is_an_answer_too() -> None:
    host = gpu_host()
    host.files[f"/sys/devices/pci0000:40/{GPU}/class"] = None  # type: ignore[assignment]
    host.real = None  # type: ignore[assignment, method-assign]
    found = call(host, "mdev_look", uuid=UUID)
    assert found["ok"]
    mdevs = mtty_host()
    done(mdevs, "mdev_create", **GOOD["mdev_create"])
    mdevs.real = None  # type: ignore[assignment, method-assign]
    error = refused(mdevs, "mdev_look", uuid=UUID)
    assert (error["code"], error["message"]) == ("unknown", "the helper failed")
    assert "TypeError" in error["why"]


def test_a_probe_survives_a_defect_of_ours() -> None:
    host = gpu_host()
    host.real = None  # type: ignore[assignment, method-assign]
    [device] = done(host, "probe")["devices"]
    assert (device["path"], device["driver"]) == (None, "nvidia")


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_source_is_python_3_9_of_the_standard_library_and_small(source: Path) -> None:
    text = source.read_text()
    assert len(text.splitlines()) <= 300
    for node in ast.walk(ast.parse(text, feature_version=(3, 9))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports do not say where they lead"
            names = [str(node.module)]
        for name in names:
            standard = name.partition(".")[0] in sys.stdlib_module_names
            assert standard or name.startswith("vgpumgr.helper"), name


def test_the_package_runs_from_a_zip_with_nothing_else_installed(tmp_path: Path) -> None:
    bundle = tmp_path / "helper.zip"
    with zipfile.ZipFile(bundle, "w") as archive:
        archive.writestr("vgpumgr/__init__.py", "")
        for source in SOURCES:
            archive.write(source, f"vgpumgr/helper/{source.relative_to(PACKAGE)}")
    start = (
        f"import runpy, sys; sys.path.insert(0, {str(bundle)!r});"
        "runpy.run_module('vgpumgr.helper', run_name='__main__')"
    )
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", start],
        input=b'{"verb": "version"}',
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert json.loads(ran.stdout)["result"]["helper"] == VERSION


def test_the_protocol_page_names_every_verb_and_argument() -> None:
    page = (PACKAGE.parents[1] / "docs" / "helper-protocol.md").read_text()
    rows = {
        line.split("|")[1].strip(" `"): line
        for line in page.splitlines()
        if line.startswith("| `") and line.count("|") == 4
    }
    for name, verb in VERBS.items():
        assert name in rows
        for argument in verb.takes:
            assert f"`{argument}`" in rows[name], (name, argument)
