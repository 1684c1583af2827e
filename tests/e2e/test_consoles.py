"""Consoles through `vgpumgr api`: in a browser's way, and by the command line at a server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.apiserver import ApiServer, serving_api
from tests.e2e.support import Cli, finish, host, interrupt, new_cli, pool, until, vm
from tests.vncviewer import Viewer
from vgpumgr.client.api_client import ServerAddress
from vgpumgr.client.console_stream import ConsoleStream
from vgpumgr.endpoints.consoles import PATH
from vgpumgr.model.errors import NotPermitted

pytestmark = pytest.mark.mainline


@pytest.fixture(scope="module")
def cli() -> Iterator[Cli]:
    with new_cli() as made:
        made.sim_up(host("h1", ("T4", 2), images=["cad@1.qcow2"]))
        desks = [vm(name, "T4-2Q", display=True, tenant="cad") for name in ("desk", "dusk")]
        made.ok("apply", "-f", made.documents(*desks, vm("blind", tenant="cad")))
        yield made


@pytest.fixture(scope="module")
def api(cli: Cli) -> Iterator[ApiServer]:
    with serving_api(cli) as server:
        yield server


def opened(api: ApiServer, name: str, **asked: str) -> dict[str, Any]:
    answer = api.ask("POST", f"/v1/vms/{name}:open-console", asked)
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.body
    return found


def stream(api: ApiServer, protocol: str, token: str = "") -> ConsoleStream:
    address = ServerAddress(path=api.path, token=token)
    return ConsoleStream(address, PATH, protocol)


def events(cli: Cli, name: str, word: str = "") -> list[str]:
    """What became of a VM's tickets, the last first."""
    found = cli.items("audit", "list", "--event", f"ticket.{word}")
    return [item["detail"] or item["event"] for item in found if item["vm"] == name]


@pytest.mark.thorough
def test_a_ticket_is_one_connection_at_any_api_of_the_ledger(cli: Cli, api: ApiServer) -> None:
    ticket = opened(api, "desk")
    assert (ticket["kind"], ticket["vm"], ticket["path"]) == ("screen", "desk", "/v1/consoles")
    with serving_api(cli, name="other") as other:
        connected = stream(other, ticket["protocol"])
        with pytest.raises(NotPermitted, match="is not taken"):
            stream(api, ticket["protocol"])
        with Viewer("", connected) as viewer:
            viewer.greet()
            assert viewer.screen().name == "desk (simulated)"
            before = viewer.picture(640, 64)
            viewer.press()
            assert viewer.picture(640, 64) != before
        until(lambda: events(cli, "desk", "closed") == ["the viewer disconnected"], "the end")
        connected = stream(other, opened(other, "desk")["protocol"])
    assert connected.recv(1 << 20).startswith(b"RFB")
    assert (connected.recv(1), events(cli, "desk", "closed")[0]) == (b"", "the API has ended")


def test_it_ends_with_the_vm(cli: Cli, api: ApiServer) -> None:
    connected = stream(api, opened(api, "dusk")["protocol"])
    cli.ok("vm", "stop", "dusk", "--force")
    while connected.recv(1 << 16):
        pass
    assert connected.ended == "the console has ended"
    until(lambda: events(cli, "dusk", "closed") == ["the console has ended"], "it is written down")
    refused = api.ask("POST", "/v1/vms/dusk:open-console", {})
    assert (refused.status, refused.body["message"]) == (409, "dusk is off")


def test_a_vm_without_a_screen_is_told(cli: Cli, api: ApiServer) -> None:
    connected = stream(api, opened(api, "blind")["protocol"])
    assert connected.recv(1) == b"" and "no VNC console" in connected.ended
    ran = api("vm", "connect", "blind")
    assert (ran.code, "no VNC console" in ran.err) == (6, True)


def test_the_serial_console_in_a_pipe(cli: Cli, api: ApiServer) -> None:
    want = "blind:~# uname -r\r\nblind:~# "
    assert api("vm", "console", "blind", stdin=b"uname -r\r").out == want
    assert cli.ok("vm", "console", "blind", stdin=b"uname -r\r").out == want
    until(lambda: len(events(cli, "blind", "closed")) >= 2, "both are written down")
    held = stream(api, opened(api, "blind", kind="serial")["protocol"])
    assert held.recv(1 << 16) == b"blind:~# "
    assert "does not answer" in api("vm", "console", "blind").err, "one reader at a time"
    held.close()


def test_a_local_viewer_at_a_server(cli: Cli, api: ApiServer) -> None:
    with client(api, "vm", "connect", "desk") as (process, ticket):
        with Viewer(ticket["address"]) as viewer:
            assert viewer.log_in(ticket["password"]) == ""
            assert viewer.screen().name == "desk (simulated)"
            with Viewer(ticket["address"]) as late:
                assert late.ended()
            assert process.poll() is None
        assert finish(process).code == 0


@pytest.mark.thorough
def test_a_desktop_is_its_users(cli: Cli, api: ApiServer) -> None:
    whole, users = [{"profile": "passthrough"}], {"users": ["root", "bob"]}
    asked = pool(gpus=whole, entitlement=users, console=True, max=1, tenant="cad")
    cli.ok("apply", "-f", cli.documents(asked))
    made = cli.ok("token", "create", "t", "--role", "tenant-user", "--tenant", "cad", "-o", "json")
    token, about = made.json["secret"], {"Authorization": f"Bearer {made.json['secret']}"}

    def connect(**asked: str) -> Any:
        return api.ask("POST", "/v1/pools/cad:connect", asked, about)

    first = connect()
    assert (first.status, first.body["protocol"]) == (200, None)
    assert first.body["waits"] and first.body["user"] == "root"
    refused = connect(user="bob")
    assert (refused.status, refused.body["code"]) == (403, "not-permitted.role")
    assert api.ask("POST", "/v1/vms/desk:open-console", {}, about).status == 403
    process = cli.process("serve")
    try:
        until(lambda: connect().body.get("protocol") is not None, "it is her turn")
        answer = connect().body
        assert (answer["desktop"], answer["kind"]) == ("cad-01", "screen")
        with pytest.raises(NotPermitted):
            stream(api, answer["protocol"])  # the same user, but not this login
        connected = stream(api, connect().body["protocol"], token)
        session = lambda: cli.ok("pool", "show", "cad", "-o", "json").json["items"][0]  # noqa: E731
        assert connected.recv(12).startswith(b"RFB")
        assert session()["disconnected_at"] is None
        connected.close()
        until(lambda: session()["disconnected_at"] is not None, "she has left")
        with client(api, "pool", "connect", "cad") as (viewing, ticket):
            assert (ticket["vm"], ticket["user"]) == ("cad-01", "root")
            until(lambda: session()["disconnected_at"] is None, "she is back")
            viewing.terminate()
            finish(viewing)
    finally:
        interrupt(process)


@contextmanager
def client(api: ApiServer, *args: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A command that listens for a viewer, and the ticket that it printed."""
    away = str(api.cli.folder / "client")
    words = ["-m", "vgpumgr", "--state-dir", away, "--server", f"unix:{api.path}", *args]
    process = subprocess.Popen(
        [sys.executable, *words, "-o", "json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    said = ""
    while not said.endswith("}\n"):
        line = process.stdout.readline()
        assert line, finish(process)
        said += line
    try:
        yield process, json.loads(said)
    finally:
        if process.poll() is None:
            process.kill()
            finish(process)
