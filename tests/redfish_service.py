"""A Redfish service for tests: a BMC with a host, a PDU and a coolant unit, and its bad days."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from vgpumgr.sim.redfish_service import ROOT, link, listed, reading

USER, PASSWORD = "reader", "sesame"


def tree() -> dict[str, Any]:
    """The resources of a rack's PDU, its coolant unit, and one host."""
    pdu, unit = "PowerEquipment/RackPDUs/pdu-1", "ThermalEquipment/CDUs/cdu-1"
    return {
        "": {
            "Systems": link("Systems"),
            "Chassis": link("Chassis"),
            "PowerEquipment": link("PowerEquipment"),
            "ThermalEquipment": link("ThermalEquipment"),
        },
        "Systems": listed("Systems/1"),
        "Systems/1": {
            "Id": "1",
            "PowerState": "On",
            "Actions": {
                "#ComputerSystem.Reset": {
                    "target": f"{ROOT}/Systems/1/Actions/ComputerSystem.Reset"
                }
            },
        },
        "Chassis": listed("Chassis/1"),
        "Chassis/1": {"Id": "1", "EnvironmentMetrics": link("Chassis/1/EnvironmentMetrics")},
        "Chassis/1/EnvironmentMetrics": {"Id": "EnvironmentMetrics", "PowerWatts": reading(812.5)},
        "PowerEquipment": {"RackPDUs": link("PowerEquipment/RackPDUs")},
        "PowerEquipment/RackPDUs": listed(pdu),
        pdu: {"Id": "pdu-1", "Metrics": link(f"{pdu}/Metrics"), "Outlets": link(f"{pdu}/Outlets")},
        f"{pdu}/Metrics": {"Id": "Metrics", "PowerWatts": reading(9100.0)},
        f"{pdu}/Outlets": listed(f"{pdu}/Outlets/A1", f"{pdu}/Outlets/A2"),
        f"{pdu}/Outlets/A1": {"Id": "A1", "PowerWatts": reading(4500.5)},
        f"{pdu}/Outlets/A2": {"Id": "A2", "PowerWatts": reading(4599.5)},
        "ThermalEquipment": {"CDUs": link("ThermalEquipment/CDUs")},
        "ThermalEquipment/CDUs": listed(unit),
        unit: {"Id": "cdu-1", "SecondaryCoolantConnectors": link(f"{unit}/Secondary")},
        f"{unit}/Secondary": listed(f"{unit}/Secondary/1"),
        f"{unit}/Secondary/1": {
            "Id": "1",
            "SupplyTemperatureCelsius": reading(32.0),
            "ReturnTemperatureCelsius": reading(41.5),
        },
    }


class RedfishService:
    """``raw`` are answers by path, byte for byte; ``slow_s`` waits before each piece of a body that
    drips; ``off_after`` are the looks until a host that was told to be off reads off (None: never).
    """

    def __init__(self) -> None:
        self.resources = tree()
        self.raw: dict[str, bytes] = {}
        self.status: dict[str, int] = {}
        self.slow_s = 0.0
        self.off_after: int | None = 2
        self.sessions: set[str] = set()
        self.asked: list[tuple[str, str]] = []
        self.location = ""
        self._going_off: int | None = None

    def look(self, path: str) -> Any:
        found: Any = self.resources.get(path)
        if path == "Systems/1" and self._going_off is not None and self.off_after is not None:
            self._going_off += 1
            if self._going_off > self.off_after:
                found["PowerState"] = "Off"
        return found

    def switch_off(self) -> None:
        self._going_off = 0


def _handler(service: RedfishService) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Quiet."""

        def do_GET(self) -> None:
            path = self._path()
            if path in service.raw:
                self._send(200, service.raw[path])
            elif self._allowed():
                found = service.look(path)
                self._json(404 if found is None else 200, found or {"error": {}})

        def do_POST(self) -> None:
            path, body = self._path(), self._body()
            if path == "SessionService/Sessions":
                if (body.get("UserName"), body.get("Password")) != (USER, PASSWORD):
                    self._json(401, {})
                    return
                token = f"t-{len(service.sessions)}"
                service.sessions.add(token)
                place = service.location or f"{ROOT}/SessionService/Sessions/{token}"
                self._json(201, {}, {"X-Auth-Token": token, "Location": place})
            elif self._allowed():
                service.switch_off()
                self._send(204, b"")

        def do_DELETE(self) -> None:
            service.sessions.discard(self._path().rpartition("/")[2])
            self._send(204, b"")

        def _path(self) -> str:
            path = self.path.removeprefix(ROOT).strip("/")
            service.asked.append((self.command, path))
            return path

        def _body(self) -> Any:
            return json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")

        def _allowed(self) -> bool:
            path = self.path.removeprefix(ROOT).strip("/")
            status = service.status.get(path)
            if status is not None:
                self._json(status, {}, {"Location": "http://127.0.0.1:1/redfish/v1"})
                return False
            token = self.headers.get("X-Auth-Token")
            if path and token not in service.sessions:
                self._json(401, {})
                return False
            return True

        def _json(self, status: int, body: Any, more: Mapping[str, str] | None = None) -> None:
            self._send(status, json.dumps(body).encode(), more or {})

        def _send(self, status: int, body: bytes, more: Mapping[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in (more or {}).items():
                self.send_header(name, value)
            if status != 204:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            pieces = [body[n : n + 1] for n in range(len(body))] if service.slow_s else [body]
            try:
                for piece in pieces:
                    time.sleep(service.slow_s)
                    self.wfile.write(piece)
                    self.wfile.flush()
            except OSError:
                return

    return Handler


@contextmanager
def redfish_service(certificate: Path | None = None) -> Iterator[tuple[str, RedfishService]]:
    """The service on loopback, and its URL; over TLS with a certificate and key in one file."""
    service = RedfishService()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(service))
    scheme = "http"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"{scheme}://127.0.0.1:{server.server_address[1]}", service
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
