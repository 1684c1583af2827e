"""The step that takes the state of a VM's TPM along to another host."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.engine.steps.step import StepSurroundings, TwoHostStep
from vgpumgr.model.errors import HostRefused
from vgpumgr.model.operation import Differs, InState, Observed
from vgpumgr.model.ports import Host

Files = dict[str, str]


@dataclass(frozen=True, slots=True)
class CarryTpm(TwoHostStep):
    """Write what the TPM of a VM that is off holds where libvirt on the target looks for it, before
    the VM is defined there. Hosts that see one folder have it already.

    It goes from host to host through us, and is written down nowhere else. ``uuid`` is the
    domain's.
    """

    name: str
    uuid: str

    @property
    def summary(self) -> str:
        """A line for people."""
        return f"carry the state of the TPM of {self.name}"

    def look(self, source: Host, target: Host) -> Observed:
        """Is it there as it is here?"""
        same = state_of_tpm(source, self.uuid) == state_of_tpm(target, self.uuid)
        return InState() if same else Differs("the TPM holds something else there")

    def act(self, source: Host, target: Host, around: StepSurroundings) -> None:
        """Read, write, and read back. A TPM that was never started has no state."""
        state = state_of_tpm(source, self.uuid)
        if not state or state == state_of_tpm(target, self.uuid):
            return
        target.helper.call("tpm_state_write", {"uuid": self.uuid, "files": state})
        if state_of_tpm(target, self.uuid) != state:
            raise HostRefused(
                f"the state of the TPM of {self.name} is not on {target.name} as it was sent",
                next="the same command again",
            )

    def undo(self, source: Host, target: Host) -> None:
        """Remove what was written; what a host has of its own stays."""
        target.helper.call("tpm_state_remove", {"uuid": self.uuid})


def state_of_tpm(host: Host, uuid: str) -> Files:
    """The files that a domain's TPM has on its host; none for one that was never started."""
    found = host.helper.call("tpm_state_read", {"uuid": uuid}).get("files")
    return {str(name): str(data) for name, data in found.items()} if isinstance(found, dict) else {}
