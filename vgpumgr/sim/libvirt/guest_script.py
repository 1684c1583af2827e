"""A simulated guest's programs, as its agent runs them: all ends well that is not scripted.

The first boot takes ``boot_s`` seconds. A program that is told to fail does so from then on.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from vgpumgr.model.errors import HostRefused
from vgpumgr.model.guest import GuestAnswer

_WELL = {
    "nvidia-smi -L": "GPU 0: NVIDIA A40-8Q (UUID: GPU-0)",
    "nvidia-smi -q": "    License Status      : Licensed (Expiry: 2030-1-1 0:0:0 GMT)",
    "docker info": " Server Version: 26.1.5",
    "systemctl is-active": "active",
    "timedatectl show": "yes",
    "ss -Hltn": "LISTEN 0 128 0.0.0.0:3389 0.0.0.0:* LISTEN 0 128 0.0.0.0:47990 0.0.0.0:*",
    "findmnt --noheadings": "nfs",
}
_NO_DRIVER = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
_REPORTS = ("cloud-init", "first-boot.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestScript:
    """``fails`` are the words of a program's command line with what it prints then; its status is
    1. ``blocked``: the agent runs no programs.
    """

    boot_s: float = 0.0
    fails: tuple[tuple[str, str], ...] = ()
    blocked: bool = False

    def answer(self, run: Sequence[str], up_s: float, *, has_gpu: bool) -> GuestAnswer:
        """How the program ends in a guest that has been up for so long."""
        line = " ".join(run)
        if self.blocked:
            why = "The command guest-exec has been disabled for this instance"
            raise HostRefused("the agent runs no programs", why=why)
        failed = next((said for words, said in self.fails if words in line), None)
        if line.endswith("cloud-init/status.json"):
            return GuestAnswer(status=0, output=self._state(up_s, failed))
        report = next((each for each in _REPORTS if each in line), "")
        if report:
            return GuestAnswer(status=0, output=self._report(report, up_s, failed))
        if up_s < self.boot_s:
            return GuestAnswer(status=127, output="No such file or directory")
        if failed is not None:
            return GuestAnswer(status=1, output=failed)
        if run[0] == "nvidia-smi" and not has_gpu:
            return GuestAnswer(status=9, output=_NO_DRIVER)
        return GuestAnswer(status=0, output=_WELL.get(" ".join(run[:2]), ""))

    def _state(self, up_s: float, failed: str | None) -> str:
        """cloud-init's own file of its state."""
        over = up_s >= self.boot_s
        stages: dict[str, dict[str, object]] = {
            each: {"errors": [], "start": 1.0, "finished": 2.0 if over else None}
            for each in ("init-local", "init", "modules-config", "modules-final")
        }
        errors = [failed] if over and failed is not None else []
        stages["modules-final"] = {**stages["modules-final"], "errors": errors}
        source = "DataSourceNoCloud [seed=/dev/sr0]"
        stage = None if over else "modules-final"
        return json.dumps({"v1": {"datasource": source, "stage": stage, **stages}})

    def _report(self, report: str, up_s: float, failed: str | None) -> str:
        over = up_s >= self.boot_s
        errors = [failed] if over and failed is not None else []
        if report == "cloud-init":
            status = ("error" if errors else "done") if over else "running"
            return json.dumps({"status": status, "errors": errors})
        steps = [{"name": "set-up", "status": int(bool(errors)), "output": "".join(errors)}]
        return json.dumps({"over": over, "steps": steps})


PLAIN_GUEST = GuestScript()
