"""Redfish of the simulated fleet, on loopback: a BMC for every host, a PDU with an outlet for each.

A BMC switches its host as ``sim power`` does, and answers while the host hangs. An outlet measures
what the host's NVIDIA GPUs draw, and ``BASE_W`` for all else; trees and links as DSP0268 has them.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from vgpumgr.model.errors import Conflict
from vgpumgr.sim.simulated_fleet import SimulatedFleet

ROOT, USER = "/redfish/v1", "sim"
BASE_W, STANDBY_W = 300.0, 10.0
PDU = "PowerEquipment/RackPDUs/pdu-1"
LOGIN_FILE = "redfish-password"
_RESETS = {"On": ("on",), "ForceOff": ("off",), "ForceRestart": ("off", "on")}
_MOST_SESSIONS, _MOST_BYTES, _PATIENCE_S = 64, 64 << 10, 10.0
_SESSIONS = "SessionService/Sessions"
_RESET = "Actions/ComputerSystem.Reset"


def link(path: str) -> dict[str, str]:
    """A link to a resource below the root."""
    return {"@odata.id": f"{ROOT}/{path}"}


def listed(*paths: str) -> dict[str, Any]:
    """A collection of these resources."""
    return {"Members": [link(path) for path in paths], "Members@odata.count": len(paths)}


def reading(value: object) -> dict[str, object]:
    """A sensor's value as an excerpt."""
    return {"Reading": value}


class FleetResources:
    """The resources by their path below the root, as the fleet is now."""

    def __init__(self, fleet: SimulatedFleet) -> None:
        self._fleet = fleet

    def find(self, path: str) -> dict[str, Any] | None:
        """A resource; None where there is none."""
        names = self._fleet.hosts
        match path.split("/"):
            case [""]:
                kinds = ("Systems", "Chassis", "PowerEquipment")
                return {"Id": "RootService", **{each: link(each) for each in kinds}}
            case ["Systems" | "Chassis" as kind]:
                return listed(*(f"{kind}/{name}" for name in names))
            case ["Systems", name] if name in names:
                return self._system(name)
            case ["Chassis", name] if name in names:
                metrics = link(f"Chassis/{name}/EnvironmentMetrics")
                return {"Id": name, "EnvironmentMetrics": metrics}
            case ["Chassis", name, "EnvironmentMetrics"] if name in names:
                return {"Id": "EnvironmentMetrics", "PowerWatts": reading(self._watts(name))}
            case ["PowerEquipment", *_]:
                return self._of_pdu(path)
        return None

    def reset(self, path: str, kind: object) -> bool | None:
        """Switch a host; False for another way than there is, None for what is no host."""
        name = path.removeprefix("Systems/").removesuffix(f"/{_RESET}")
        if path != f"Systems/{name}/{_RESET}" or name not in self._fleet.hosts:
            return None
        if not isinstance(kind, str) or kind not in _RESETS:
            return False
        for word in _RESETS[kind]:
            self._fleet.inject(name, [word])
        return True

    def _of_pdu(self, path: str) -> dict[str, Any] | None:
        outlet = path.removeprefix(f"{PDU}/Outlets/")
        if outlet in self._fleet.hosts:
            return {"Id": outlet, "PowerWatts": reading(self._watts(outlet))}
        match path.removeprefix(PDU):
            case "":
                links = {key: link(f"{PDU}/{key}") for key in ("Metrics", "Outlets")}
                return {"Id": "pdu-1", **links}
            case "/Metrics":
                total = sum(map(self._watts, self._fleet.hosts))
                return {"Id": "Metrics", "PowerWatts": reading(round(total, 1))}
            case "/Outlets":
                return listed(*(f"{PDU}/Outlets/{name}" for name in self._fleet.hosts))
            case "PowerEquipment":
                return {"RackPDUs": link("PowerEquipment/RackPDUs")}
            case "PowerEquipment/RackPDUs":
                return listed(PDU)
        return None

    def _system(self, name: str) -> dict[str, Any]:
        reset = {
            "target": f"{ROOT}/Systems/{name}/{_RESET}",
            "ResetType@Redfish.AllowableValues": [*_RESETS],
        }
        state = "On" if self._is_on(name) else "Off"
        return {"Id": name, "PowerState": state, "Actions": {"#ComputerSystem.Reset": reset}}

    def _is_on(self, name: str) -> bool:
        return self._fleet.hosts[name].faults.powered

    def _watts(self, name: str) -> float:
        if not self._is_on(name):
            return STANDBY_W
        host = self._fleet.hosts[name]
        with host.lock:
            drawn = (each.milliwatts() for each in host.opened().kernel.activities.values())
            return round(BASE_W + sum(drawn) / 1000, 1)


class RedfishService:
    """The service of one simulated fleet; ``url`` is where it listens."""

    def __init__(self, fleet: SimulatedFleet, state: Path, port: int) -> None:
        self.resources = FleetResources(fleet)
        self.password_file = state / LOGIN_FILE
        self.password = _kept_password(self.password_file)
        self.sessions: dict[str, None] = {}
        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        except OSError as error:
            raise Conflict(
                f"port {port} of 127.0.0.1 is not free",
                why=error.strerror or str(error),
                next="vgpumgr sim up --redfish 0: a free one",
            ) from error
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def opened(self) -> str:
        """The token of a new session; of too many the oldest ends."""
        token = secrets.token_urlsafe(24)
        self.sessions[token] = None
        for old in [*self.sessions][:-_MOST_SESSIONS]:
            self.sessions.pop(old, None)
        return token

    def told(self) -> dict[str, str]:
        """Where it is, and how to log in."""
        return {"url": self.url, "user": USER, "password_file": str(self.password_file)}

    def end(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()


def _kept_password(path: Path) -> str:
    """The password of this fleet, made once."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return path.read_text().strip()
    with os.fdopen(handle, "w") as file:
        file.write(f"{(made := secrets.token_urlsafe(18))}\n")
    return made


def _handler(service: RedfishService) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _PATIENCE_S

        def log_message(self, *_: object) -> None:
            """Quiet."""

        def do_GET(self) -> None:
            path = self._path()
            if not self._allowed(path):
                return
            found = service.resources.find(path)
            self._answer(404 if found is None else 200, found)

        def do_POST(self) -> None:
            path, body = self._path(), self._body()
            if path == _SESSIONS:
                self._log_in(body)
            elif self._allowed(path):
                done = service.resources.reset(path, body.get("ResetType"))
                self._answer({True: 204, False: 400, None: 404}[done])

        def do_DELETE(self) -> None:
            service.sessions.pop(self._path().rpartition("/")[2], None)
            self._answer(204)

        def _log_in(self, body: Mapping[str, Any]) -> None:
            given = json.dumps([body.get("UserName"), body.get("Password")])
            if not secrets.compare_digest(given, json.dumps([USER, service.password])):
                self._answer(401)
                return
            token = service.opened()
            place = f"{ROOT}/{_SESSIONS}/{token}"
            self._answer(201, {}, {"X-Auth-Token": token, "Location": place})

        def _path(self) -> str:
            return self.path.removeprefix(ROOT).strip("/")

        def _allowed(self, path: str) -> bool:
            """The root is for all; the rest for who has logged in."""
            known = self.headers.get("X-Auth-Token", "") in service.sessions
            if path and not known:
                self._answer(401)
            return known or not path

        def _body(self) -> dict[str, Any]:
            """What was sent; empty where that is no object, or too much."""
            length = self.headers.get("Content-Length", "")
            size = int(length) if length.isdecimal() else 0
            data = self.rfile.read(size) if size <= _MOST_BYTES else b""
            try:
                found = json.loads(data or b"{}")
            except ValueError:
                return {}
            return found if isinstance(found, dict) else {}

        def _answer(
            self, status: int, body: object = None, headers: Mapping[str, str] | None = None
        ) -> None:
            data = b"" if status == 204 else json.dumps(body or {"error": {}}).encode()
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            if data:
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler
