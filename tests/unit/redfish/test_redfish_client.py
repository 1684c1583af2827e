"""The Redfish client against a service on loopback: sessions, tags, pins, deadlines, garbage."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from tests.redfish_service import PASSWORD, ROOT, USER, RedfishService, redfish_service
from vgpumgr.model.errors import (
    DeadlineExceeded,
    HostRefused,
    HostUnreachable,
    NotPermitted,
    OutcomeUnknown,
    UsageError,
    VgpumgrError,
)
from vgpumgr.redfish import __main__ as fence_program
from vgpumgr.redfish.host_power import power_state, switch_off
from vgpumgr.redfish.meter_readings import read_meter
from vgpumgr.redfish.redfish_client import MOST_BYTES, RedfishClient, RedfishLogin

Service = tuple[str, RedfishService]


@pytest.fixture
def service() -> Iterator[Service]:
    with redfish_service() as found:
        yield found


def client(service: Service, **fields: str) -> RedfishClient:
    login = {"user": USER, "password": PASSWORD, **fields}
    return RedfishClient(RedfishLogin(url=service[0], **login), call_s=2.0)


def test_a_session_is_opened_used_and_ended(service: Service) -> None:
    with client(service) as asked:
        assert asked.get(f"{ROOT}/Systems/1")["PowerState"] == "On"
        assert service[1].sessions
    assert not service[1].sessions


def test_a_wrong_password_is_not_permitted(service: Service) -> None:
    with pytest.raises(NotPermitted, match="refused POST"), client(service, password="no"):
        pass


def test_a_password_is_never_sent_in_the_clear_over_a_network() -> None:
    login = RedfishLogin(url="http://192.0.2.1", user=USER, password=PASSWORD)
    with pytest.raises(NotPermitted, match="without TLS"), RedfishClient(login, call_s=0.1):
        pass
    assert PASSWORD not in repr(login)


def test_a_redirect_is_not_followed(service: Service) -> None:
    service[1].status["Systems"] = 302
    with client(service) as asked, pytest.raises(HostRefused, match="GET"):
        asked.get(f"{ROOT}/Systems")


@pytest.mark.parametrize(
    "path", ["http://elsewhere/redfish/v1", "/etc/passwd", "//x/redfish/v1", ""]
)
def test_what_is_no_resource_of_the_service_is_not_asked_for(service: Service, path: str) -> None:
    with client(service) as asked, pytest.raises(OutcomeUnknown):
        asked.get(path)


def test_a_session_elsewhere_is_not_deleted(service: Service) -> None:
    service[1].location = "http://192.0.2.1/admin"
    with client(service):
        pass
    assert "DELETE" not in {method for method, _ in service[1].asked}


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"<html>", OutcomeUnknown),
        (b"[]", OutcomeUnknown),
        (b'{"a": NaN}', OutcomeUnknown),
        (b"[" * 100_000, OutcomeUnknown),
        (b"\xff\xfe", OutcomeUnknown),
        (b" " * (MOST_BYTES + 1), HostUnreachable),
    ],
)
def test_garbage_is_an_error_by_name(
    service: Service, body: bytes, error: type[VgpumgrError]
) -> None:
    service[1].raw["Systems"] = body
    with client(service) as asked, pytest.raises(error, match=r"127\.0\.0\.1"):
        asked.get(f"{ROOT}/Systems")


@pytest.mark.thorough
def test_an_answer_that_drips_is_cut_at_the_deadline(service: Service) -> None:
    with client(service) as asked:
        service[1].slow_s = 0.2
        began = time.monotonic()
        with pytest.raises(HostUnreachable):
            asked.get(f"{ROOT}/Systems/1")
        assert time.monotonic() - began < 4.0
        service[1].slow_s = 0.0


def test_nothing_there_is_unreachable() -> None:
    with pytest.raises(HostUnreachable, match="does not answer"):
        RedfishClient(RedfishLogin(url="https://127.0.0.1:1"), call_s=1.0).get(ROOT)


def certificate(folder: Path) -> tuple[Path, str]:
    """A self-signed one with its key, and its SHA-256."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "bmc")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1))
    ).sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = folder / "bmc.pem"
    path.write_bytes(key.private_bytes(pem, *plain) + made.public_bytes(pem))
    return path, sha256(made.public_bytes(serialization.Encoding.DER)).hexdigest()


def test_a_pinned_certificate_is_the_one_that_is_trusted(tmp_path: Path) -> None:
    path, digest = certificate(tmp_path)
    with redfish_service(path) as found:
        with client(found, certificate=f"sha256:{digest.upper()}") as asked:
            assert power_state(asked) == "On"
        with pytest.raises(HostUnreachable, match="does not answer"), client(found):
            pass
        seen = len(found[1].asked)
        with pytest.raises(NotPermitted) as refused, client(found, certificate="0" * 64):
            pass
        assert digest in refused.value.why
        assert len(found[1].asked) == seen, "nothing is sent to it"


# -- power of a host ---------------------------------------------------------------------------


def test_a_host_is_off_once_it_reads_off(service: Service) -> None:
    with client(service) as asked:
        switch_off(asked, wait=lambda _: None)
        assert power_state(asked) == "Off"


def test_an_order_that_was_taken_is_no_proof(service: Service) -> None:
    service[1].off_after = None
    moments = iter(range(100))
    with client(service) as asked, pytest.raises(DeadlineExceeded, match="is not off"):
        switch_off(asked, within_s=5, wait=lambda _: None, now=lambda: float(next(moments)))


@pytest.mark.parametrize("state", ["off-ish", None, 7, "off"])
def test_any_other_word_is_unknown(service: Service, state: object) -> None:
    service[1].resources["Systems/1"]["PowerState"] = state
    with client(service) as asked, pytest.raises(OutcomeUnknown):
        power_state(asked)


def test_of_several_systems_one_is_named(service: Service) -> None:
    service[1].resources["Systems"]["Members"] *= 2
    with client(service) as asked, pytest.raises(UsageError, match="2 systems"):
        power_state(asked)


def test_the_fence_program_says_off_as_the_fence_reads_it(
    service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from vgpumgr.model.host import says_off

    secret = tmp_path / "bmc"
    secret.write_text(f"{PASSWORD}\n")
    words = [service[0], "--user", USER, "--password-file", str(secret)]
    assert fence_program.main(["status", *words]) == 0
    assert not says_off(0, capsys.readouterr().out)
    service[1].off_after = 0
    assert fence_program.main(["off", *words]) == 0
    assert says_off(0, capsys.readouterr().out)
    secret.write_text("wrong")
    assert fence_program.main(["status", *words]) == 1
    assert "refused" in capsys.readouterr().err


@pytest.mark.parametrize("url", ["bmc-1", "", "https://", "https://bmc:99999", "https://[::1"])
def test_the_fence_program_tells_what_is_no_url(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fence_program.main(["status", url]) == 1
    assert "is no URL" in capsys.readouterr().err


# -- meters ------------------------------------------------------------------------------------


def test_a_pdu_tells_its_power_its_outlets_and_the_coolant(service: Service) -> None:
    with client(service) as asked:
        found = read_meter(asked, "rack-1", 5.0)
    assert (found.budget, found.at, found.watts, found.unread) == ("rack-1", 5.0, 9100.0, ())
    assert found.outlets == {"pdu-1/A1": 4500.5, "pdu-1/A2": 4599.5}
    assert found.coolant_c == {"cdu-1/1/supply": 32.0, "cdu-1/1/return": 41.5}


def test_without_a_pdu_the_chassis_tell(service: Service) -> None:
    del service[1].resources["PowerEquipment"]
    with client(service) as asked:
        assert read_meter(asked, "h1", 0.0).watts == 812.5


@pytest.mark.parametrize("value", ["lots", -1, 1e12, True, [], 1e400, 10**400])
def test_a_sensor_that_tells_nonsense_is_named_and_costs_itself_alone(
    service: Service, value: object
) -> None:
    outlet = service[1].resources["PowerEquipment/RackPDUs/pdu-1/Outlets/A1"]
    outlet["PowerWatts"] = {"Reading": value}
    with client(service) as asked:
        found = read_meter(asked, "rack-1", 0.0)
    assert found.outlets == {"pdu-1/A2": 4599.5}
    assert found.watts == 9100.0
    assert found.unread == ("pdu-1/A1 PowerWatts",) or value == 1e400


def test_links_in_a_circle_and_lists_without_end_are_bounded(service: Service) -> None:
    outlets = service[1].resources["PowerEquipment/RackPDUs/pdu-1/Outlets"]
    outlets["Members"] = outlets["Members"] * 5000
    with client(service) as asked:
        assert len(read_meter(asked, "rack-1", 0.0).outlets) == 2
    assert len(service[1].asked) < 200
