"""Our Redfish client at a service that others wrote: the emulator of sushy-tools, fake driver.

What it has are systems that are switched, without a login, and chassis; no sessions, and neither
PowerEquipment nor EnvironmentMetrics.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.monitoring import free_port, until
from vgpumgr.model.errors import NotPermitted, UsageError
from vgpumgr.redfish.__main__ import main as fence
from vgpumgr.redfish.host_power import power_state, switch_off
from vgpumgr.redfish.meter_readings import read_meter
from vgpumgr.redfish.redfish_client import RedfishClient, RedfishLogin

EMULATOR = Path(__file__).parents[2] / ".sushy/bin/sushy-emulator"
FIRST, SECOND = "27946b59-9e44-4fa7-8e91-f3527a1ef094", "58893887-894f-2487-2389-841168418919"
CONFIG = """
SUSHY_EMULATOR_LISTEN_IP = "127.0.0.1"
SUSHY_EMULATOR_LISTEN_PORT = {port}
SUSHY_EMULATOR_FAKE_DRIVER = True
SUSHY_EMULATOR_STATE_DIR = {folder!r}
SUSHY_EMULATOR_FAKE_SYSTEMS = [
    {{"uuid": uuid, "name": uuid[:4], "power_state": "On", "nics": []}} for uuid in {systems!r}
]
"""

pytestmark = pytest.mark.thorough


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    port, config = free_port(), tmp_path / "config.py"
    text = CONFIG.format(port=port, folder=str(tmp_path), systems=[FIRST, SECOND])
    config.write_text(text)
    assert EMULATOR.exists(), "tools/setup.sh test installs it"
    argv = [str(EMULATOR), "--config", str(config)]
    with (tmp_path / "log").open("wb") as log, subprocess.Popen(argv, stdout=log, stderr=log) as it:
        try:
            until(lambda: answers(it, port), "the emulator")
            yield f"http://127.0.0.1:{port}"
        finally:
            it.terminate()


def answers(process: subprocess.Popen[bytes], port: int) -> bool:
    assert process.poll() is None, "it ended"
    socket.create_connection(("127.0.0.1", port), 10).close()
    return True


def test_one_of_its_systems_is_switched_off_and_read_back(url: str) -> None:
    with RedfishClient(RedfishLogin(url=url)) as client:
        assert power_state(client, FIRST) == "On"
        switch_off(client, FIRST)
        assert (power_state(client, FIRST), power_state(client, SECOND)) == ("Off", "On")


def test_the_fence_program_ends_well_only_once_it_is_off(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fence(["off", url, "--system", SECOND]) == 0
    assert fence(["status", url, "--system", SECOND]) == 0
    assert capsys.readouterr().out == "Power is off\nPower is off\n"


def test_of_several_systems_one_has_to_be_named(url: str) -> None:
    with (
        RedfishClient(RedfishLogin(url=url)) as client,
        pytest.raises(UsageError, match="2 systems"),
    ):
        power_state(client)


def test_that_it_has_no_sessions_is_said(url: str) -> None:
    login = RedfishLogin(url=url, user="u", password="p")
    with pytest.raises(NotPermitted, match="no Redfish sessions"), RedfishClient(login):
        pass


def test_as_a_meter_it_measures_nothing_and_that_is_no_fault(url: str) -> None:
    with RedfishClient(RedfishLogin(url=url)) as client:
        found = read_meter(client, "rack", 1.0)
    assert (found.watts, dict(found.outlets), dict(found.coolant_c)) == (None, {}, {})
    assert (found.unread, found.error) == ((), "")
