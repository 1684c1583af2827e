"""A worker process: it carries out one endpoint after the other for the API, and tells of each.

Jobs come as JSON lines on standard input, what becomes of them goes as JSON lines to standard
output. SIGTERM lets the running host calls end; the rest is left in the ledger. The
end of the input ends the process after the running job.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from vgpumgr.access.permission import Permission
from vgpumgr.access.redaction import names_in
from vgpumgr.endpoints.answers import to_json
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import AnyEndpoint
from vgpumgr.endpoints.registry import ENDPOINTS
from vgpumgr.identity.established import Established
from vgpumgr.model.actor import Actor, acting
from vgpumgr.model.api_request import RequestKey, working_for
from vgpumgr.model.codec import from_plain, to_plain
from vgpumgr.model.errors import (
    AccessRefused,
    NameTaken,
    NotFound,
    PreconditionFailed,
    PreconditionRequired,
    RequestRepeated,
    UsageError,
    VgpumgrError,
)
from vgpumgr.model.json_times import timed
from vgpumgr.model.role_binding import Scope

if TYPE_CHECKING:
    from vgpumgr.app import App
    from vgpumgr.engine.operations.operation_outcome import VmOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointCall:
    """One call of an endpoint, as the API tells a worker of it: ``scope`` is where the caller holds
    its permission, ``also`` where its other ones. ``request`` is the key of one that changes
    something, ``if_match`` the tags that it takes the thing for. ``caller`` is who asks: without it
    the account that the worker runs as would.
    """

    endpoint: str
    asked: Mapping[str, Any]
    actor: Actor
    scope: Scope
    caller: Established
    also: Mapping[str, Scope] = field(default_factory=dict)
    request: RequestKey | None = None
    if_match: str | None = None


def carry_out(context: CallContext, call: EndpointCall) -> dict[str, Any]:
    """The whole answer of a call; what came of a request is kept in the ledger. Raises what the
    endpoint raises. Other tenants' names are in neither.
    """
    endpoint = ENDPOINTS[call.endpoint]
    asked = from_plain(endpoint.asks, call.asked)
    also = {Permission(name): scope for name, scope in call.also.items()}
    context = replace(context, scope=call.scope, also=also, caller=call.caller)
    with acting(call.actor):
        if call.request is None:
            return _told(context, call, asked)
        try:
            with working_for(call.request):
                require_match(context, endpoint, asked, call.if_match)
                answer = _told(context, call, asked)
        except RequestRepeated:
            raise
        except VgpumgrError as error:
            context.app.writable_ledger.end_request(call.request, {"error": error.as_dict()})
            raise
        kept = {"answer": {} if endpoint.secret else answer}
        context.app.writable_ledger.end_request(call.request, kept)
        return answer


def _told(context: CallContext, call: EndpointCall, asked: object) -> dict[str, Any]:
    """The answer as JSON, within the caller's scope."""
    endpoint = ENDPOINTS[call.endpoint]
    if context.scope.is_all:
        return to_json(endpoint, endpoint.work(context, asked))
    require_scoped(endpoint)
    reads = context.reads
    told = replace(
        context,
        tell=lambda line: context.tell(reads.redacted(line)),
        planned=lambda plan: context.planned(reads.redacted(plan)),
    )
    try:
        return reads.redacted(to_json(endpoint, endpoint.work(told, asked)))
    except (NotFound, NameTaken) as error:
        raise reads.redacted(error, names_in(json.dumps(to_plain(call.asked)))) from None
    except VgpumgrError as error:
        raise reads.redacted(error) from None


def require_match(
    context: CallContext, endpoint: AnyEndpoint, asked: object, if_match: str | None
) -> None:
    """PreconditionRequired or PreconditionFailed where a thing that there is would be replaced or
    removed by a caller who did not see it as it is.
    """
    if endpoint.tag is None:
        return
    try:
        tag = endpoint.tag(context, asked)
    except NotFound:
        return  # the endpoint says so itself, or makes it
    if if_match is None:
        raise PreconditionRequired(
            "the change does not say what it takes the thing for",
            why=f"it has the ETag {tag} now",
            next="If-Match: with the ETag of what you saw, or *",
        )
    if if_match.strip() != "*" and tag not in [each.strip() for each in if_match.split(",")]:
        raise PreconditionFailed(
            "it was changed since you saw it",
            why=f"its ETag is {tag} now, not {if_match:.80}",
            next="read it again, and change that",
            etag=tag,
        )


def require_scoped(endpoint: AnyEndpoint) -> None:
    """AccessRefused for what is answered for all tenants only."""
    if not endpoint.scoped:
        raise AccessRefused(
            f"{endpoint.name} is for users who may see all tenants",
            next="vgpumgr auth whoami; an administrator can grant more",
        )


class JobTeller:
    """Writes what becomes of a job, a line each; threads may tell at once."""

    def __init__(self, writing: IO[str]) -> None:
        self._writing = writing
        self._lock = threading.Lock()

    def tell(self, **event: object) -> None:
        """Write one line; its reader may be gone, and the work goes on."""
        with self._lock:
            try:
                self._writing.write(json.dumps(event) + "\n")
                self._writing.flush()
            except (OSError, ValueError):
                pass

    def begun(self, operation: str) -> None:
        """An operation is reserved."""
        self.tell(begun=operation)

    def told(self, line: str) -> None:
        """This far a long one has come."""
        self.tell(told=line)

    def planned(self, plan: Mapping[str, Any]) -> None:
        """This is about to be done."""
        self.tell(planned=timed(plan))

    def progress(self, outcome: VmOutcome) -> None:
        """A VM's task has ended."""
        error = str(outcome.error) if outcome.error else ""
        ended = {"vm": outcome.vm, "host": outcome.host, "verb": outcome.verb}
        self.tell(progress={**ended, "state": str(outcome.state), "error": error})


def work(app: App, job: Mapping[str, Any], teller: JobTeller) -> None:
    """Carry out one job, and tell its answer or error; a bug of ours ends the process, too."""
    try:
        call = from_plain(EndpointCall, job)
        context = CallContext(
            app=app,
            begun=teller.begun,
            progress=teller.progress,
            tell=teller.told,
            planned=teller.planned,
        )
        teller.tell(answer=carry_out(context, call))
    except VgpumgrError as error:
        teller.tell(error=error.as_dict())
    except Exception as error:
        teller.tell(error=unexpected(error).as_dict(), ends=True)
        raise


def unexpected(error: Exception) -> VgpumgrError:
    """The error of a bug of ours: its kind, and no more of it."""
    return VgpumgrError(
        f"an unexpected {type(error).__name__}",
        why="this is a bug in vgpumgr; the journal of the service has the details",
        next="journalctl -u vgpumgr-api",
    )


def main() -> None:
    """Serve the API's jobs until its end."""
    from vgpumgr.app import App
    from vgpumgr.app.config import load_config

    reading, teller = sys.stdin, JobTeller(os.fdopen(os.dup(1), "w"))
    os.dup2(2, 1)  # nothing else that is printed is taken for an event
    overrides = json.loads(reading.readline() or "{}")
    app = App(load_config(os.environ, Path.cwd(), overrides))
    signal.signal(signal.SIGTERM, lambda *_: app.stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        app.writable_ledger.fleet_id()
        teller.tell(ready=os.getpid())
        for line in reading:
            work(app, json.loads(line), teller)
            if app.stop.is_set():
                break
    except UsageError as error:
        teller.tell(error=error.as_dict())
    finally:
        app.close()


if __name__ == "__main__":
    main()
