"""Calling the helper on a host: one program, JSON in, JSON out (docs/helper-protocol.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from vgpumgr.hosts.helper.answers import NoSudoRule, result_of
from vgpumgr.hosts.helper.launch import Launch
from vgpumgr.hosts.helper.verbs import AS_WE_ARE, CHANGES, LEAVES_TRACES, LONG_S
from vgpumgr.hosts.runner import CallCut, Runner
from vgpumgr.model.errors import (
    DeadlineExceeded,
    HostUnreachable,
    NotPermitted,
    OutcomeUnknown,
    Superseded,
    VgpumgrError,
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
        launch: Launch,
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
        """One verb; a look at everything without a sudo rule is made as we are, and says so."""
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
            return self._as_we_are(verb, request, refusal)

    def _as_we_are(self, verb: str, request: bytes, refusal: NotPermitted) -> dict[str, object]:
        result = self._answer(verb, self._launch.without_sudo(), request)
        unknown = result.get("unknown")
        missing = {"part": "root", "why": f"{refusal.message}; {refusal.next}"}
        result["unknown"] = [*(unknown if isinstance(unknown, list) else []), missing]
        return result

    def _answer(self, verb: str, launch: Launch, request: bytes) -> dict[str, object]:
        timeout_s = max(self._timeout_s, LONG_S.get(verb, 0.0))
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
