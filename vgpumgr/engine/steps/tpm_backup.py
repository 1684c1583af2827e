"""The state of a VM's TPM in its backup: a small volume next to its disks, and the step that has a
restored VM begin with it.

It is as secret as the disks are, and lies where they lie; it is in no step, record or log.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from vgpumgr import domainxml
from vgpumgr.engine.steps.backup_manifest import read_manifest
from vgpumgr.engine.steps.step import Step
from vgpumgr.engine.steps.tpm_steps import state_of_tpm
from vgpumgr.model.domain import VolumePlan
from vgpumgr.model.errors import HostRefused
from vgpumgr.model.operation import Differs, InState, Observed
from vgpumgr.model.ports import Clock, Host

_MOST_BYTES = 1 << 20


def tpm_text(host: Host, uuid: str) -> bytes:
    """What the TPM of a domain holds now, as a volume has it; empty for one without a state."""
    state = state_of_tpm(host, uuid)
    return json.dumps(state, sort_keys=True).encode() if state else b""


def digest_of(text: bytes) -> str:
    """The SHA-256 by which a manifest names it; empty for none."""
    return hashlib.sha256(text).hexdigest() if text else ""


def write_tpm(host: Host, pool: str, volume: str, text: bytes) -> None:
    """Write it where no volume of that name is."""
    plan = VolumePlan(pool=pool, name=volume, capacity_bytes=len(text), format="raw")
    host.storage.create(pool, domainxml.volume(plan))
    host.storage.upload(pool, volume, text)


def read_tpm(host: Host, pool: str, volume: str) -> bytes:
    """What was written; empty where there is no such volume."""
    if host.storage.look(pool, volume) is None:
        return b""
    return host.storage.read(pool, volume, _MOST_BYTES).rstrip(b"\0")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreTpm(Step):
    """Before a restored VM is defined: have its TPM hold what it held in the backup whose manifest
    is that volume. ``uuid`` is the domain's.
    """

    name: str
    uuid: str
    pool: str
    manifest: str
    volume: str

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"bring the state of the TPM of {self.name} back"

    def look(self, host: Host) -> Observed:
        """Does the TPM hold that?"""
        same = tpm_text(host, self.uuid) == self._kept(host)
        return InState() if same else Differs("it holds something else")

    def act(self, host: Host, clock: Clock) -> None:
        """Write it and read it back; a backup without a TPM's state has none to bring back."""
        if not (text := self._kept(host)):
            return
        host.helper.call("tpm_state_write", {"uuid": self.uuid, "files": json.loads(text)})
        if tpm_text(host, self.uuid) != text:
            raise HostRefused(
                f"the state of the TPM of {self.name} is not on {host.name} as it was written",
                next="the same command again",
            )

    def undo(self, host: Host) -> None:
        """Remove what was written."""
        host.helper.call("tpm_state_remove", {"uuid": self.uuid})

    def _kept(self, host: Host) -> bytes:
        manifest = read_manifest(host, self.pool, self.manifest)
        if manifest is None:
            raise HostRefused(f"{self.pool}/{self.manifest} is gone from {host.name}")
        text = read_tpm(host, self.pool, self.volume) if manifest.tpm else b""
        if digest_of(text) != manifest.tpm:
            raise HostRefused(
                f"the state of the TPM of {self.name} is damaged in its backup",
                why=f"volume {self.pool}/{self.volume} is not as it was written",
                next="vgpumgr backup list, and an earlier one",
            )
        return text
