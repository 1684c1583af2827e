"""The collection's modules of the API, in real plays against a real server."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver import ApiServer, serving_api
from tests.certificates import Authority
from tests.e2e.support import host, new_cli
from tests.playbooks import POOL, VM, results, run_play, task

SPEC: dict[str, Any] = {"vcpus": 1, "memory": "1GiB", "gpus": [{"profile": "T4-4Q"}]}
POOL_SPEC = {**SPEC, "image": "cad@1", "min": 1, "max": 3, "entitlement": {"groups": ["staff"]}}
CHECK = ("--check", "--diff")


@pytest.fixture(scope="module")
def api() -> Iterator[ApiServer]:
    with new_cli() as cli:
        cli.sim_up(host("h1", ("T4", 2), images=["cad@1.qcow2"]))
        Authority(cli.folder / "ca").issue("IP:127.0.0.1", cli.folder)
        pem = (f"{cli.folder}/server-{part}.pem" for part in ("cert", "key"))
        options = zip(("--certificate", "--key"), pem, strict=True)
        with serving_api(cli, tls=tuple(word for pair in options for word in pair)) as server:
            yield server


@pytest.fixture
def unix(api: ApiServer) -> dict[str, Any]:
    return {"server": f"unix:{api.path}"}


def vms(api: ApiServer) -> dict[str, str]:
    return {each["name"]: each["status"] for each in api.cli.items("vm", "list")}


def test_a_vm_is_made_once_and_deleted_once(
    api: ApiServer, unix: dict[str, Any], tmp_path: Path
) -> None:
    desk = {**unix, "name": "main", "spec": SPEC}
    gone = {**unix, "name": "main", "state": "absent", "force": True}
    made, again, deleted = results(tmp_path, task(VM, desk), task(VM, desk), task(VM, gone))
    assert made["changed"] and made["vms"][0]["status"] == "active"
    assert made["actions"][0]["kind"] == "create"
    assert (again["changed"], again["actions"], again["settled"]) == (False, [], None)
    assert deleted["changed"] and "main" not in vms(api)
    assert made["operation"] in {each["name"] for each in api.cli.items("operation", "list")}


def test_check_mode_changes_nothing(api: ApiServer, unix: dict[str, Any], tmp_path: Path) -> None:
    before = (vms(api), len(api.cli.items("operation", "list", "--limit", "0")))
    desk, pool = {**unix, "name": "dry", "spec": SPEC}, {**unix, "name": "dry", "spec": POOL_SPEC}
    found = results(
        tmp_path,
        task(VM, desk),
        task(VM, {**desk, "state": "stopped"}),
        task(POOL, pool),
        task(VM, {**unix, "name": "dry", "state": "absent"}),
        task(VM, {**desk, "spec": {**SPEC, "gpus": [{"profile": "A40-8Q"}]}}),
        options=CHECK,
    )
    vm, stopped, made, absent, nowhere = found
    assert vm["changed"] and vm["operation"] == ""
    assert vm["diff"]["prepared"].startswith("create dry on h1: T4-4Q on ")
    assert [each["kind"] for each in stopped["actions"]] == ["create", "stop"]
    assert made["diff"]["prepared"] == "create dry\n"
    assert (stopped["changed"], made["changed"], absent["changed"]) == (True, True, False)
    assert nowhere["failed"] and nowhere["code"] == "placement.none" and nowhere["why"]
    after = (vms(api), len(api.cli.items("operation", "list", "--limit", "0")))
    assert after == before and api.cli.items("pool", "list") == []


def test_a_vm_is_changed_stopped_and_started(
    api: ApiServer, unix: dict[str, Any], tmp_path: Path
) -> None:
    desk = {**unix, "name": "life", "spec": SPEC}
    larger = {**desk, "spec": {**SPEC, "vcpus": 2}}
    other = {**desk, "spec": {**SPEC, "cloud_init": {"user_data": "#cloud-config\n"}}}
    found = results(
        tmp_path,
        task(VM, {**desk, "state": "running"}),
        task(VM, {**desk, "state": "running"}),
        task(VM, larger, check_mode=True),
        task(VM, larger),
        task(VM, {**larger, "restart": True}, diff=True),
        task(VM, other, check_mode=True),
        task(VM, other),
        task(VM, {**unix, "name": "life", "state": "stopped", "force": True}),
        task(VM, {**unix, "name": "life", "state": "stopped", "force": True}),
        task(VM, {**larger, "state": "stopped"}),
        task(VM, larger),
        task(VM, {**larger, "state": "running"}, check_mode=True),
        task(VM, {**larger, "state": "running"}),
        task(VM, {**unix, "name": "life", "state": "running"}),
        task(VM, {**unix, "name": "life", "state": "absent"}),
        task(VM, {**unix, "name": "life", "state": "absent", "force": True, "keep_disks": True}),
        task(VM, {**unix, "name": "life", "state": "absent"}),
    )
    made, running, dry, refused, changed, stuck, new, stopped, *rest = found
    assert (made["changed"], running["changed"]) == (True, False)
    for each in (dry, refused):
        assert (each["failed"], each["code"], each["changed"]) == (True, "conflict", False)
        assert "vcpus: 1 → 2" in each["why"] and "in the task: restart: true" in each["msg"]
    assert changed["vms"][0]["vcpus"] == 2
    assert changed["diff"]["prepared"] == "change life on h1: vcpus: 1 → 2\n"
    for each in (stuck, new):
        assert each["code"] == "conflict" and each["next"].startswith("vgpumgr vm delete life")
    stays, with_spec, present, starts, started, still, kept, gone, none = rest
    assert stopped["changed"] and stopped["vms"][0]["status"] == "stopped"
    assert not (stays["changed"] or with_spec["changed"] or present["changed"])
    assert starts["changed"] and starts["actions"] == started["actions"]
    assert started["vms"][0]["status"] == "active" and not still["changed"]
    assert (kept["code"], kept["changed"]) == ("conflict.running", False)
    assert "in the task: force: true" in kept["msg"]
    assert gone["changed"] and "life" not in vms(api) and not none["changed"]


def test_replicas_are_made_and_deleted_together(
    api: ApiServer, unix: dict[str, Any], tmp_path: Path
) -> None:
    many = {**unix, "name": "many", "spec": {**SPEC, "gpus": [], "replicas": 3}}
    made, stopped, gone = results(
        tmp_path,
        task(VM, many),
        task(VM, {**many, "state": "stopped", "force": True}),
        task(VM, {**many, "state": "absent"}),
    )
    assert [each["name"] for each in made["vms"]] == ["many-01", "many-02", "many-03"]
    assert {each["status"] for each in stopped["vms"]} == {"stopped"}
    assert len(gone["actions"]) == 3 and not [name for name in vms(api) if "many" in name]


def test_refusals_say_why_and_what_next(
    api: ApiServer, unix: dict[str, Any], tmp_path: Path
) -> None:
    elsewhere = {**SPEC, "gpus": [{"profile": "A40-8Q"}]}
    desk = {**unix, "name": "no"}
    found = results(
        tmp_path,
        task(VM, {**desk, "spec": elsewhere}),
        task(POOL, {**desk, "spec": {**POOL_SPEC, "gpus": elsewhere["gpus"]}}),
        task(VM, {**desk, "spec": {**SPEC, "vcpu": 3}}),
        task(VM, {**desk, "spec": {**SPEC, "kind": "Pool"}}),
        task(VM, {**desk, "state": "running"}),
        task(VM, {**desk, "server": "ftp://x", "spec": SPEC}),
        task(VM, {**desk, "server": f"unix:{tmp_path}/none", "spec": SPEC}),
        task(VM, {**desk, "spec": SPEC, "idempotency_key": "é"}),
        task(VM, desk),
    )
    nowhere, pool, key, kind, unknown, server, none, sent, bare = found
    assert all(each["failed"] and not each["changed"] for each in found)
    assert nowhere["code"] == pool["code"] == "placement.none"
    assert "A40" in nowhere["why"] and nowhere["why"] in nowhere["msg"]
    assert pool["why"] and "next: vgpumgr capacity" in pool["msg"]
    assert key["code"] == "usage.spec" and "vcpu" in key["msg"]
    assert "kind is Pool" in kind["msg"] and unknown["code"] == "not-found"
    assert "is no server" in server["msg"] and none["code"] == "host.unreachable"
    assert sent["msg"].startswith("idempotency_key has characters that cannot be sent")
    assert "spec" in bare["msg"]


def test_a_pool_is_recorded_changed_and_deleted(
    api: ApiServer, unix: dict[str, Any], tmp_path: Path
) -> None:
    cad = {**unix, "name": "cad", "spec": POOL_SPEC}
    larger = {**cad, "spec": {**POOL_SPEC, "max": 4}}
    gone = {**unix, "name": "cad", "state": "absent"}
    made, again, changed, late, deleted, none = results(
        tmp_path,
        task(POOL, cad),
        task(POOL, cad),
        task(POOL, larger, diff=True),
        task(POOL, {**larger, "wait": True, "timeout": 1}),
        task(POOL, gone),
        task(POOL, {**gone, "wait": True}),
    )
    assert made["changed"] and made["pool"]["max"] == 3 and not again["changed"]
    assert "max 3 → min" in changed["diff"]["prepared"] and changed["pool"]["max"] == 4
    assert late["code"] == "deadline" and "serve" in late["next"]
    assert deleted["changed"] and not none["changed"]
    assert api.cli.items("pool", "list") == []


def test_over_tls_a_token_says_who_asks(api: ApiServer, tmp_path: Path) -> None:
    secret = api.cli.ok("token", "create", "play", "--role", "operator", "-o", "json").json
    viewer = api.cli.ok("token", "create", "see", "--role", "viewer", "-o", "json").json["secret"]
    token, ca = str(secret["secret"]), f"{api.cli.folder}/ca-cert.pem"
    Authority(tmp_path / "other")
    there = {"server": api.url, "ca": ca, "name": "tls", "spec": SPEC}
    gone = {"name": "tls", "state": "absent", "force": True}
    found = results(
        tmp_path,
        task(VM, {**there, "token": token}),
        task(VM, {**there, "token": "vgm_wrong"}),
        task(VM, {**there, "token": viewer, "name": "more"}),
        task(VM, {**there, "token": token, "ca": f"{tmp_path}/other/ca-cert.pem"}),
        task(VM, gone),
        VGPUMGR_SERVER=api.url,
        VGPUMGR_CA=ca,
        VGPUMGR_TOKEN=token,
    )
    made, wrong, role, stranger, deleted = found
    assert made["changed"] and deleted["changed"]
    assert wrong["code"] == "not-permitted.login"
    assert role["code"] == "not-permitted.role" and "vm:create" in role["msg"]
    assert stranger["code"] == "host.unreachable" and "certificate" in stranger["why"].lower()
    assert token not in json.dumps(found) and viewer not in json.dumps(found)


def test_no_word_of_a_play_shows_the_token(api: ApiServer, tmp_path: Path) -> None:
    made = api.cli.ok("token", "create", "hide", "--role", "viewer", "-o", "json").json
    args = {"server": f"unix:{api.path}", "token": made["secret"], "name": "x", "state": "running"}
    play = [{"hosts": "all", "gather_facts": False, "tasks": [task(VM, args)]}]
    ran = run_play(tmp_path, json.dumps(play), "-vvv", ANSIBLE_STDOUT_CALLBACK="default")
    assert "not-found" in ran.stdout and made["secret"] not in ran.stdout + ran.stderr


class Cutter:
    """A unix socket before the API's: it cuts the answers to the first ``cuts`` changes off."""

    def __init__(self, path: Path, api: ApiServer, cuts: int) -> None:
        self.left, self.keys, self._api = cuts, list[str](), api
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                with self._listener.accept()[0] as client:
                    self._pass_on(client)

    def _pass_on(self, client: socket.socket) -> None:
        request = client.recv(1 << 16)
        while b"\r\n\r\n" not in request or not _is_whole(request):
            request += client.recv(1 << 16)
        head = request.split(b"\r\n\r\n")[0].decode()
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(self._api.path)
            server.sendall(request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
            answer = b"".join(iter(lambda: server.recv(1 << 16), b""))
        if found := re.search(r"(?im)^idempotency-key: (\S+)", head):
            self.keys.append(found[1])
            self.left -= 1
            if self.left >= 0:
                return
        client.sendall(answer)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


def _is_whole(request: bytes) -> bool:
    head, _, body = request.partition(b"\r\n\r\n")
    length = re.search(rb"(?im)^content-length: (\d+)", head)
    return length is None or len(body) >= int(length[1])


@pytest.mark.parametrize("cuts", [1, 3])
def test_a_change_whose_answer_is_cut_off_is_made_once(
    api: ApiServer, tmp_path: Path, cuts: int
) -> None:
    """Once the module asks again itself, then the task's second attempt goes on."""
    path = tmp_path / "cut.sock"
    cutter = Cutter(path, api, cuts)
    try:
        args = {"server": f"unix:{path}", "name": f"cut-{cuts}", "spec": {**SPEC, "gpus": []}}
        retried = {"until": "r0 is succeeded", "retries": 2, "delay": 0}
        before = len(api.cli.items("operation", "list", "--limit", "0"))
        made, gone = results(
            tmp_path,
            task(VM, args, **retried),
            task(VM, {**args, "state": "absent", "force": True}),
        )
    finally:
        cutter.close()
    assert made["changed"] and not made["failed"] and gone["changed"]
    assert len({key for key in cutter.keys if key.endswith(":apply")}) == 1
    assert made["attempts"] == (2 if cuts == 3 else 1)
    assert len(api.cli.items("operation", "list", "--limit", "0")) == before + 2


def test_a_task_that_does_not_wait_ends_with_its_operation(
    api: ApiServer, unix: dict[str, Any], tmp_path: Path
) -> None:
    desk = {**unix, "name": "soon", "spec": SPEC}
    begun, made = results(tmp_path, task(VM, {**desk, "wait": False}), task(VM, desk))
    assert begun["changed"] and begun["operation"] and begun["settled"] is False
    assert made["vms"][0]["status"] == "active"
    api.cli.ok("vm", "delete", "soon", "--force", "-y")


def test_the_playbook_of_the_docs_runs_as_it_is_written(api: ApiServer, tmp_path: Path) -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", Path("docs/ansible.md").read_text(), re.DOTALL)
    made = api.cli.ok("token", "create", "docs", "--role", "operator", "-o", "json").json
    text = text.replace("https://gpu.example.org:8443", api.url)
    text = text.replace("/etc/vgpumgr/ca.pem", f"{api.cli.folder}/ca-cert.pem")
    for changed in (2, 0):
        ran = run_play(
            tmp_path, text, VGPUMGR_TOKEN=made["secret"], ANSIBLE_STDOUT_CALLBACK="default"
        )
        assert ran.returncode == 0 and f"changed={changed} " in ran.stdout, ran.stdout
    api.cli.ok("vm", "delete", "desk", "--force", "-y")
    api.cli.ok("pool", "delete", "cad", "-y")
