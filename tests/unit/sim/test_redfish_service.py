"""The simulated BMCs and PDU, asked by our own client and by the fence program."""

from __future__ import annotations

import http.client
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from vgpumgr.model.errors import Conflict, HostRefused, NotPermitted
from vgpumgr.model.sim_fleet import SimBoard, SimFleet, SimHost
from vgpumgr.redfish.__main__ import main as fence
from vgpumgr.redfish.host_power import power_state, switch_off
from vgpumgr.redfish.meter_readings import read_meter
from vgpumgr.redfish.redfish_client import RedfishClient, RedfishLogin
from vgpumgr.sim.redfish_service import BASE_W, STANDBY_W, USER, RedfishService
from vgpumgr.sim.simulated_fleet import SimulatedFleet

GPU = "0000:41:00.0"


class World:
    def __init__(self, folder: Path) -> None:
        boards = (SimBoard(board="A40"),)
        hosts = (SimHost(name="h1", boards=boards), SimHost(name="h2", boards=boards))
        self.fleet = SimulatedFleet(SimFleet(name="f", hosts=hosts))
        self.service = RedfishService(self.fleet, folder, 0)

    def client(self, password: str = "") -> RedfishClient:
        given = password or self.service.password
        return RedfishClient(RedfishLogin(url=self.service.url, user=USER, password=given))

    def fence(self, what: str, host: str) -> int:
        login = ["--user", USER, "--password-file", str(self.service.password_file)]
        return fence([what, self.service.url, *login, "--system", host])


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.service.end()
    found.fleet.close()


def test_a_bmc_switches_its_own_host_off_and_on(world: World) -> None:
    with world.client() as client:
        assert power_state(client, "h1") == "On"
        switch_off(client, "h1")
        assert (power_state(client, "h1"), power_state(client, "h2")) == ("Off", "On")
        assert not world.fleet.hosts["h1"].faults.powered
        path = "/redfish/v1/Systems/h1/Actions/ComputerSystem.Reset"
        client.post(path, {"ResetType": "On"})
        assert power_state(client, "h1") == "On"


def test_the_fence_program_fences_a_host_that_hangs(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.fleet.inject("h1", ["hang"])
    assert world.fence("status", "h1") == 0
    assert world.fence("off", "h1") == 0
    assert capsys.readouterr().out.splitlines() == ["Power is on", "Power is off"]
    assert not world.fleet.hosts["h1"].faults.powered


def test_the_pdu_measures_what_the_gpus_draw(world: World) -> None:
    world.fleet.inject("h1", ["gpu", GPU, "busy"])
    world.fleet.inject("h2", ["off"])
    with world.client() as client:
        found = read_meter(client, "rack", 1.0)
    assert found.outlets["pdu-1/h2"] == STANDBY_W
    assert found.outlets["pdu-1/h1"] > BASE_W + 250, "an A40 at work"
    assert found.watts == pytest.approx(sum(found.outlets.values()), abs=0.2)
    assert (found.unread, found.error) == ((), "")


def test_without_the_password_only_the_root_is_told(world: World) -> None:
    with pytest.raises(NotPermitted), world.client("wrong"):
        pass
    with urllib.request.urlopen(f"{world.service.url}/redfish/v1") as answer:
        assert "Systems" in json.load(answer)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{world.service.url}/redfish/v1/Systems")
    assert world.service.password_file.stat().st_mode & 0o077 == 0


def test_what_it_does_not_have_is_refused(world: World) -> None:
    with world.client() as client:
        for path in ("Systems/h3", "Nothing", "PowerEquipment/RackPDUs/pdu-2", "Chassis/h1/x"):
            with pytest.raises(HostRefused):
                client.get(f"/redfish/v1/{path}")
        reset = "/redfish/v1/Systems/{}/Actions/ComputerSystem.Reset"
        for path, kind in ((reset.format("h3"), "On"), (reset.format("h1"), "Nmi")):
            with pytest.raises(HostRefused):
                client.post(path, {"ResetType": kind})
        assert power_state(client, "h1") == "On"


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"UserName": 1}', b"\xff"])
def test_a_login_that_is_none_is_refused(world: World, body: bytes) -> None:
    place = world.service.url.removeprefix("http://")
    connection = http.client.HTTPConnection(place, timeout=30)
    connection.request("POST", "/redfish/v1/SessionService/Sessions", body)
    assert connection.getresponse().status == 401
    connection.close()


def test_a_port_that_is_taken_is_told_and_the_password_stays(world: World, tmp_path: Path) -> None:
    port = int(world.service.url.rpartition(":")[2])
    with pytest.raises(Conflict, match=str(port)):
        RedfishService(world.fleet, tmp_path, port)
    again = RedfishService(world.fleet, tmp_path, 0)
    assert again.password == world.service.password
    again.end()


def test_sessions_do_not_add_up(world: World) -> None:
    tokens = [world.service.opened() for _ in range(200)]
    assert [*world.service.sessions] == tokens[-64:]
