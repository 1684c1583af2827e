"""Calls to a simulated host: the helper's, and libvirt's under their deadline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vgpumgr.hosts.runner import MAX_OUTPUT_BYTES, CallCut, Completed
from vgpumgr.model.errors import DeadlineExceeded, HostUnreachable, OutcomeUnknown, VgpumgrError

# target, method, arguments, kind of the answer; may raise CallCut
Call = Callable[[str, str, dict[str, Any], Any], Any]

# Methods of libvirt that change nothing.
READS = frozenset({"list", "look", "xml", "pools", "networks", "versions"})
READS |= {"volumes", "live_xml", "cpu_fits", "kept_beside", "progress", "download"}


class SimRunner:
    """Fulfils ``hosts.runner.Runner``: the one program that a simulated host runs is the helper."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def run(self, argv: Sequence[str], stdin: bytes, timeout_s: float) -> Completed:
        """The helper's answer to ``stdin``; the deadline is the channel's."""
        text = self._call("helper", "run", {"request": stdin.decode()}, str)
        if len(text) > MAX_OUTPUT_BYTES:
            raise CallCut(f"more than {MAX_OUTPUT_BYTES} bytes of output")
        return Completed(0, str(text).encode(), "")


def under_deadline(host: str, call: Call) -> Call:
    """``call``, whose cut answers become errors as those of a real host's libvirt."""

    def guarded(target: str, method: str, arguments: dict[str, Any], kind: Any) -> Any:
        try:
            return call(target, method, arguments, kind)
        except CallCut as cut:
            error: type[VgpumgrError] = HostUnreachable
            if method not in READS:
                error = OutcomeUnknown
            elif cut.timed_out:
                error = DeadlineExceeded
            raise error(
                f"{target} {method} on {host} was aborted",
                why=cut.why,
                next=f"vgpumgr host probe {host}",
            ) from cut

    return guarded
