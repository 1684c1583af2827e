"""Calls of the helper on a host: JSON in, JSON or an error out (docs/helper-protocol.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from vgpumgr.hosts.helper.helper_launch import LAUNCHER, HelperLaunch, sudoers_line
from vgpumgr.hosts.program_runner import CallCut, CompletedProgram, Runner
from vgpumgr.model.errors import (
    Conflict,
    DeadlineExceeded,
    HostRefused,
    HostUnreachable,
    InUse,
    NotFound,
    NotPermitted,
    OutcomeUnknown,
    Superseded,
    VgpumgrError,
)
from vgpumgr.model.formats import spoken

# Verbs that say whose they are, and in which epoch.
CHANGES = frozenset(
    {
        "mdev_create",
        "mdev_remove",
        "vgpu_create",
        "vgpu_release",
        "vfio_bind",
        "vfio_release",
        "mdev_adopt",
        "vgpu_adopt",
        "vfio_adopt",
        "disown",
        "claim_rename",
        "nic_vf_take",
        "nic_vf_release",
        "tpm_state_read",
        "tpm_state_write",
        "tpm_state_remove",
        "layout_claim",
        "layout_forget",
        "mig_mode_set",
        "vfs_set",
        "mixed_size_set",
        "scheduler_set",
        "power_limit_set",
        "clocks_lock",
        "gpu_reset",
        "gi_create",
        "gi_destroy",
        "fabric_activate",
        "fabric_deactivate",
        "restore",
        "overlay_dissolve",
        "thin_volume_create",
        "thin_volume_grow",
        "rbd_flatten",
        "fleet_join",
        "fleet_leave",
        "forget",
    }
)
# What is worth doing without root, too: each answer names the parts that it could not read.
AS_WE_ARE = frozenset({"probe", "examine", "figures"})
# The verdict of a KVM trial is written down on the host.
LEAVES_TRACES = CHANGES | {"kvm_probe"}
# Deadlines of verbs that take longer than an ordinary one, in seconds.
LONG_S = {
    "kvm_probe": 60.0,
    # A TiB at 100 MB/s; a host that is gone is noticed by SSH's keepalives before.
    "file_digest": 4 * 3600.0,
    "overlay_dissolve": 4 * 3600.0 + 60.0,
    "rbd_look": 90.0,
    "rbd_flatten": 4 * 3600.0 + 300.0,
    "thin_volume_create": 300.0,
    "thin_volume_grow": 240.0,
    "restore": 300.0,
    # Rebinding a driver, resetting a GPU and training links take tens of seconds.
    "vfs_set": 180.0,
    "mig_mode_set": 180.0,
    "gpu_reset": 180.0,
    "fabric_activate": 120.0,
    "fabric_deactivate": 120.0,
    "vgpu_create": 60.0,
    "vgpu_release": 60.0,
}


# Deadlines of verbs that are to be short, in seconds.
SHORT_S = {"figures": 20.0}

_KINDS: dict[str, type[VgpumgrError]] = {
    "bad-argument": HostRefused,
    "not-permitted": NotPermitted,
    "in-use": InUse,
    "claim-mismatch": Conflict,
    "stale-epoch": Superseded,
    "not-found": NotFound,
    "refused": HostRefused,
    "unknown": OutcomeUnknown,
}
_NO_VERB = "no verb "
_NO_SUDO = (
    "password is required",
    "not in the sudoers file",
    "is not allowed to",
    "may not run sudo",
    "terminal is required",
    "sudo: not found",
    "sudo: command not found",
    "No such file or directory: 'sudo'",
)


class NoSudoRule(NotPermitted):
    """sudo wants a password, or is not there."""


def result_of(host: str, ended: CompletedProgram, launch: HelperLaunch) -> dict[str, object]:
    """The result in the helper's answer; its refusal, or why there is none, is raised."""
    try:
        answer = json.loads(ended.out, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise _no_answer(host, ended, launch) from None
    if isinstance(answer, dict):
        if answer.get("ok") is True and isinstance(answer.get("result"), dict):
            return dict(answer["result"])
        if isinstance(answer.get("error"), dict):
            raise _refusal(host, answer["error"])
    raise _improper(host, ended)


def _no_constant(name: str) -> float:
    """NaN and Infinity are not JSON."""
    raise ValueError(name)


def _refusal(host: str, error: Mapping[str, object]) -> VgpumgrError:
    said = _said(error, "message")
    message = f"{host}: {said or 'the helper refused'}"
    why = _said(error, "why")
    if error.get("code") == "bad-argument" and said.startswith(_NO_VERB):
        return HostRefused(
            f"the helper on {host} is older than this vgpumgr: {said}",
            why=why,
            next=f"vgpumgr host upgrade {host}",
        )
    kind = _KINDS.get(_said(error, "code"), OutcomeUnknown)
    if kind is Superseded:
        return Superseded(message, why=why, next="vgpumgr store check")
    if kind is HostRefused:
        return HostRefused(message, why=why, errno_name=_said(error, "errno"))
    return kind(message, why=why)


def _improper(host: str, ended: CompletedProgram) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"the helper on {host} gave an invalid answer",
        why=spoken(ended.out[:200].decode(errors="replace")),
        next=f"vgpumgr host upgrade {host}   (reinstalls the helper)",
    )


def _said(error: Mapping[str, object], key: str) -> str:
    """Text of a refusal, for people; whatever else is there is no text."""
    found = error.get(key)
    return spoken(found) if isinstance(found, str) else ""


def _no_answer(host: str, ended: CompletedProgram, launch: HelperLaunch) -> VgpumgrError:
    """The program did not even begin, or died: its status and stderr say why."""
    if launch.user is not None and any(words in ended.err for words in _NO_SUDO):
        return NoSudoRule(
            f"no sudo rule lets {launch.user} run the helper on {host}",
            why=ended.err.splitlines()[-1],
            next=f"add to /etc/sudoers.d/vgpumgr: {sudoers_line(launch.user)}",
        )
    if ended.status in {126, 127} or "command not found" in ended.err:
        return HostUnreachable(
            f"the helper cannot be started on {host}",
            why=ended.err or f"{launch.argv[0]} ended with status {ended.status}",
            next=f"ssh to {host}: ls -l {LAUNCHER}; python3 --version (3.9 or later)",
        )
    if ended.status == 0 and ended.out:
        return _improper(host, ended)
    return OutcomeUnknown(
        f"the helper on {host} died",
        why=f"status {ended.status}: {ended.err[-500:]}",
        next=f"vgpumgr host probe {host}",
    )


Identity = Callable[[], tuple[str, int]]
"""The fleet's id and the store's epoch, asked for when a verb needs them."""


class HelperCall:
    """Fulfils ``ports.Helper`` over a runner. ``timeout_s`` is the deadline of an ordinary verb.

    Where the host has seen a higher epoch, ``renew`` is asked once for one that is as high; it
    raises ClaimLost when that is another's.
    """

    def __init__(
        self,
        host: str,
        runner: Runner,
        launch: HelperLaunch,
        *,
        timeout_s: float,
        identity: Identity,
        renew: Identity | None = None,
    ) -> None:
        self._host = host
        self._runner = runner
        self._launch = launch
        self._timeout_s = timeout_s
        self._identity = identity
        self._renew = renew or identity

    def call(self, verb: str, args: Mapping[str, object]) -> dict[str, object]:
        """Call one verb. Without a sudo rule, a look at everything runs as our user and says so."""
        if verb in LEAVES_TRACES and not self._launch.may_change:
            raise NotPermitted(
                f"{self._host} is probe-only: nothing can be changed there",
                why="it was enrolled without installing the helper",
                next=f"vgpumgr host remove {self._host}, then host add without --no-install",
            )
        identity = self._identity() if verb in CHANGES else None
        try:
            return self._called(verb, args, identity)
        except Superseded:
            renewed = self._renew()
            if identity in {None, renewed}:
                raise
            return self._called(verb, args, renewed)

    def _called(
        self, verb: str, args: Mapping[str, object], identity: tuple[str, int] | None
    ) -> dict[str, object]:
        request = _request(verb, args, identity)
        try:
            return self._answer(verb, self._launch, request)
        except NoSudoRule as refusal:
            if verb not in AS_WE_ARE:
                raise
            return self._as_we_are(verb, refusal)

    def _as_we_are(self, verb: str, refusal: NotPermitted) -> dict[str, object]:
        """All of it, whatever is known: another user sees another host."""
        result = self._answer(verb, self._launch.without_sudo(), _request(verb, {}, None))
        result.pop("digests", None)
        unknown = result.get("unknown")
        missing = {"part": "root", "why": f"{refusal.message}; {refusal.next}"}
        result["unknown"] = [*(unknown if isinstance(unknown, list) else []), missing]
        return result

    def _answer(self, verb: str, launch: HelperLaunch, request: bytes) -> dict[str, object]:
        timeout_s = max(self._timeout_s, LONG_S.get(verb, 0.0))
        timeout_s = min(timeout_s, SHORT_S.get(verb, timeout_s))
        try:
            ended = self._runner.run(launch.argv, launch.prefix + request, timeout_s)
        except CallCut as cut:
            raise self._cut(verb, cut) from cut
        return result_of(self._host, ended, launch)

    def _cut(self, verb: str, cut: CallCut) -> VgpumgrError:
        message = f"the helper's {verb} on {self._host} was aborted"
        if verb in CHANGES:
            return OutcomeUnknown(message, why=cut.why, next=f"vgpumgr host probe {self._host}")
        kind = DeadlineExceeded if cut.timed_out else HostUnreachable
        return kind(message, why=cut.why, next=f"vgpumgr host probe {self._host}")


def _request(verb: str, args: Mapping[str, object], identity: tuple[str, int] | None) -> bytes:
    request: dict[str, object] = {"verb": verb, "args": dict(args)}
    if identity is not None:
        request["fleet"], request["epoch"] = identity
    return json.dumps(request).encode()
