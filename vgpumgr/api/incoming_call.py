"""One request for an endpoint: who asks, whether they may, and the ways in which it is answered."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from anyio import to_thread
from fastapi import Request
from fastapi.responses import JSONResponse, Response
from starlette.status import HTTP_304_NOT_MODIFIED, HTTP_400_BAD_REQUEST

from vgpumgr.access.permission import Permission
from vgpumgr.api.live_answers import LiveAnswer
from vgpumgr.api.pages import page
from vgpumgr.api.problems import problem
from vgpumgr.api.request_keys import in_doubt, request_key, require_same
from vgpumgr.api.service import Service
from vgpumgr.api.worker import EndpointCall, carry_out
from vgpumgr.api.worker_pool import WorkerJob
from vgpumgr.endpoints.answers import to_json
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import AnyEndpoint, Runs
from vgpumgr.endpoints.operations import SHOW_OPERATION, OneOperation, show_operation
from vgpumgr.identity.established import Established
from vgpumgr.model.actor import acting
from vgpumgr.model.api_request import ApiRequest
from vgpumgr.model.codec import from_plain, to_plain
from vgpumgr.model.errors import NotFound, VgpumgrError, error_from
from vgpumgr.model.role_binding import NO_TENANT, Scope

PREFIX = "/v1"
_JSON = "application/json"
_PACKED = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
SOON_S, BEAT_S = 5.0, 0.05
END_WRITTEN_S = 30.0
"""How long after an operation's end its request's may still be written."""


@dataclass(slots=True)
class IncomingCall:
    """A request for ``endpoint`` with its parameters (``asked``), and its idempotency key if it
    shows one; of a list with ``page_size`` only the page ``page_after``.
    """

    service: Service
    endpoint: AnyEndpoint
    request: Request
    asked: dict[str, Any]
    key: str | None
    page_size: int | None = None
    page_after: str = ""
    if_match: str | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, wait_s: float) -> Response:
        """Answer where the endpoint's work is done; one about an operation waits for its end, at
        most ``wait_s``.
        """
        if self.endpoint.runs is Runs.LEDGER and not self.asked.get("refresh"):
            limiter = self.service.for_changes if self.endpoint.changes else None
            return await to_thread.run_sync(self.answer_here, limiter=limiter)
        return await self.answer_in_worker(wait_s)

    async def read(self) -> dict[str, Any]:
        """The newest answer of a read as JSON, an operation with the end of its request; raises
        what the endpoint raises.
        """
        if self.endpoint.name == SHOW_OPERATION.name:
            who = await to_thread.run_sync(self._admitted)
            return await to_thread.run_sync(self._operation, who, str(self.asked["id"]))
        if self.endpoint.runs is Runs.LEDGER:
            return await to_thread.run_sync(self.read_here)
        answer = await self.answer_in_worker(0.0)
        whole: dict[str, Any] = json.loads(bytes(answer.body))
        if answer.status_code >= HTTP_400_BAD_REQUEST:
            raise error_from(whole)
        return whole

    def read_here(self) -> dict[str, Any]:
        """The same in this thread, of an endpoint that reads the ledger alone."""
        who = self._admitted()
        context, call = CallContext(app=self.service.app, caller=who), self._call(who)
        if self.endpoint.personal:
            return carry_out(context, call)
        whole: dict[str, Any] = json.loads(self._kept(context, call, newest=True).data)
        return whole

    def tag(self) -> str:
        """The ETag of the one thing that is asked about; empty for other endpoints."""
        who = self._admitted()
        context = CallContext(app=self.service.app, caller=who, scope=self._call(who).scope)
        return self._tagged(context).get("ETag", "")

    def answer_here(self) -> Response:
        """Answer in this thread, from the ledger."""
        who = self._admitted()
        call = self._call(who)
        context = CallContext(app=self.service.app, caller=who, scope=call.scope)
        if call.request is None and self.endpoint.personal:
            tagged = self._tagged(context)
            return JSONResponse(carry_out(context, call), headers=tagged)
        if call.request is None:
            return self._live(context, call)
        if (found := self._found(call)) is not None:
            return self._replayed(who, found)
        try:
            return JSONResponse(carry_out(context, call))
        except VgpumgrError as error:
            return self._failed(who, call, error)
        finally:
            self.service.answers.changed()

    def _live(self, context: CallContext, call: EndpointCall) -> Response:
        """The answer of a read as it is kept, packed or in a page as the request wants it."""
        tagged = self._tagged(context)
        found = self._kept(context, call, newest=bool(tagged))
        if self.page_size is not None:
            return JSONResponse(page(json.loads(found.data), self.page_size, self.page_after))
        known = self.request.headers.get("if-none-match", "").split(", ")
        if tagged and tagged["ETag"] in known:
            return Response(status_code=HTTP_304_NOT_MODIFIED, headers=tagged)
        if "gzip" in self.request.headers.get("accept-encoding", "") and (packed := found.packed()):
            return Response(packed, headers={**_PACKED, **tagged}, media_type=_JSON)
        headers = {"Vary": "Accept-Encoding", **tagged}
        return Response(found.data, headers=headers, media_type=_JSON)

    def _kept(
        self, context: CallContext, call: EndpointCall, *, newest: bool = False
    ) -> LiveAnswer:
        """The answer of a read: the one that is kept, as long as nothing has changed."""
        asked = json.dumps(call.asked, sort_keys=True)
        key = (call.endpoint, asked, call.scope, tuple(sorted(call.also.items())))

        def make() -> bytes:
            return json.dumps(carry_out(context, call), separators=(",", ":")).encode()

        return self.service.answers.answer(key, make, newest=newest)

    def _tagged(self, context: CallContext) -> dict[str, str]:
        """The tag of the one thing that is shown, none for what the ledger does not know. It is
        read before the answer: who changes what the answer shows is then refused for a change in
        between, and never undoes it unseen.
        """
        if self.endpoint.tag is None:
            return {}
        asked = from_plain(self.endpoint.asks, self.asked)
        with suppress(NotFound):
            return {"ETag": self.endpoint.tag(context, asked)}
        return {}

    async def answer_in_worker(self, wait_s: float) -> Response:
        """Answer from a worker process: at once where an operation is reserved, but for
        ``wait_s``.
        """
        limiter = self.service.for_changes
        begun = await to_thread.run_sync(self._submitted, limiter=limiter)
        if isinstance(begun, Response):
            return begun
        who, call, job = begun
        early = self.endpoint.runs is Runs.OPERATION
        while not (job.ended or (early and job.operation)):
            await self.changed.wait()
            self.changed.clear()
        self.service.answers.changed()
        if job.operation:
            self.service.keep(job)
            await self._until_ended(job, wait_s)
            if not wait_s:
                whole = await to_thread.run_sync(self._operation, who, job.operation)
                return _operation_answer(whole, 202)
        return await to_thread.run_sync(self._end_of, who, call, job)

    async def awaited_operation(self, wait_s: float) -> Response:
        """An operation, once it has ended or the time is over."""
        who = await to_thread.run_sync(self._admitted)
        until = time.monotonic() + wait_s
        while True:
            whole = await to_thread.run_sync(self._operation, who, str(self.asked["id"]))
            left_s = until - time.monotonic()
            if whole["done"] or left_s <= 0:
                self.service.answers.changed()
                return _operation_answer(whole, 200)
            await self.service.changes.wait(min(left_s, 1.0))

    def _admitted(self) -> Established:
        """Who asks; LoginRefused or AccessRefused."""
        who = self.service.admitted(
            self.request, self.endpoint.permission, changes=self.endpoint.changes
        )
        if self.asked.get("refresh"):
            self.service.limits.require_probe(who)
        return who

    def _call(self, who: Established) -> EndpointCall:
        request = None
        if self.endpoint.changes:
            user, conceal = who.actor.user, self.service.app.secrets.mark
            request = request_key(self.endpoint, user, self.asked, self.key, conceal)
        needs = self.endpoint.permission
        scope = who.grants.require(needs) if needs is not None else NO_TENANT
        return EndpointCall(
            endpoint=self.endpoint.name,
            asked=self.asked,
            actor=who.actor,
            scope=scope,
            also={str(each): who.grants.scope(each) for each in self.endpoint.also},
            request=request,
            if_match=self.if_match or self.request.headers.get("if-match"),
            caller=who,
        )

    def _found(self, call: EndpointCall) -> ApiRequest | None:
        """The request that was carried out under the key, if it was."""
        assert call.request is not None
        if self.key is None:
            return None
        found = self.service.app.writable_ledger.api_request(call.request.user, call.request.key)
        if found is not None:
            require_same(found, call.request)
        return found

    def _submitted(self) -> tuple[Established, EndpointCall, WorkerJob] | Response:
        who = self._admitted()
        call = self._call(who)
        if call.request is not None and (found := self._found(call)) is not None:
            return self._replayed(who, found)
        job = WorkerJob(asked=to_plain(call), changed=self.service.wake(self.changed))
        self.service.workers.submit(job)
        return who, call, job

    def _end_of(self, who: Established, call: EndpointCall, job: WorkerJob) -> Response:
        if job.error is not None:
            return self._failed(who, call, job.error)
        if job.answer is not None:
            return JSONResponse(job.answer)
        return _operation_answer(self._operation(who, job.operation), 202)

    def _failed(self, who: Established, call: EndpointCall, error: VgpumgrError) -> Response:
        """The answer for an error; that of a faster attempt where there was one: the error may be
        of what that has done.
        """
        found = self._found(call) if call.request is not None else None
        if found is None or (call.request is not None and found.attempt == call.request.attempt):
            return problem(error)
        return self._replayed(who, found)

    def _replayed(self, who: Established, found: ApiRequest) -> Response:
        """The answer of a request that was carried out before; one that may still be under way is
        waited for.
        """
        until = time.monotonic() + SOON_S
        while found.ended_at is None and not found.operation and time.monotonic() < until:
            time.sleep(BEAT_S)
            ledger = self.service.app.writable_ledger
            found = ledger.api_request(found.user, found.key) or found
        if "error" in found.end:
            return problem(error_from(dict(found.end["error"])))  # type: ignore[call-overload]
        if found.end.get("answer"):
            return JSONResponse(found.end["answer"])
        if found.operation:
            return _operation_answer(self._operation(who, found.operation), 202)
        raise in_doubt(found)

    def _operation(self, who: Established, id_: str) -> dict[str, Any]:
        """An operation, with the end of the request that began it."""
        scope = who.grants.scope(Permission.OPERATION_READ)
        with acting(who.actor):
            context = CallContext(app=self.service.app, scope=scope)
            whole = to_json(SHOW_OPERATION, show_operation(context, OneOperation(id=id_)))
        reads = context.reads
        job = self.service.job(whole["name"])
        if job is not None:
            told = _of_job(job)
            seen = from_plain(Scope, job.asked["scope"]) <= scope
            return {**whole, **(told if seen else {"done": told["done"]})}
        found = self.service.app.writable_ledger.request_of(whole["name"])
        if found is None:
            return whole
        end = found.end if scope.is_all or found.user == who.actor.user else {}
        if end.get("answer"):
            whole["response"] = reads.redacted(end["answer"])
        if "error" in end:
            whole["error"] = reads.redacted(end["error"])
        return {**whole, "done": whole["done"] and _is_ended(self.service, found)}

    async def _until_ended(self, job: WorkerJob, wait_s: float) -> None:
        try:
            async with asyncio.timeout(wait_s):
                while not job.ended:
                    await self.changed.wait()
                    self.changed.clear()
        except TimeoutError:
            pass


def _of_job(job: WorkerJob) -> dict[str, Any]:
    """What is known of the last request that worked on an operation here."""
    ended = job.ended  # before its end is looked at, which is there first
    found: dict[str, Any] = {"done": ended, "told": list(job.told)}
    if job.plan is not None:
        found["plan"] = job.plan
    if job.answer is not None:
        found["response"] = job.answer
    if job.error is not None:
        found["error"] = job.error.as_dict()
    return found


def _is_ended(service: Service, request: ApiRequest) -> bool:
    """Has it an end, or will it never have one?"""
    if request.ended_at is not None:
        return True
    ended_at = service.app.writable_ledger.operation(request.operation).ended_at
    return ended_at is not None and time.time() - ended_at > END_WRITTEN_S


def _operation_answer(whole: dict[str, Any], status: int) -> Response:
    headers = {"Location": f"{PREFIX}/operations/{whole['name']}"}
    return JSONResponse(whole, status_code=status, headers=headers)
