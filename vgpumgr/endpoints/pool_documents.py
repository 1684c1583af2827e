"""The endpoints of pools in documents: plan, apply, and which of them there are."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.documents import (
    PartOfFile,
    documents_of,
    pool_documents,
    require_one_way,
    source_name,
    what_stays,
)
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, Result, Runs
from vgpumgr.endpoints.pool_items import PoolChanges, pool_changes


def plan_pools(context: CallContext, asked: PartOfFile) -> Result[PoolChanges]:
    """What applying them would change; what cannot be applied is raised."""
    documents = pool_documents(context, asked, hosts=Permission.HOST_READ)
    context.app.require_hosts()
    changes = [context.app.engine.pool_plan(each) for each in documents.pools]
    return Result(answer=pool_changes(changes))


def apply_pools(context: CallContext, asked: PartOfFile) -> Result[PoolChanges]:
    """Write the pools down: all that can be are looked at before the first."""
    documents = pool_documents(context, asked, hosts=Permission.HOST_WRITE)
    context.app.require_hosts()
    engine = context.app.engine
    for each in documents.pools:
        engine.pool_plan(each)
    changes = [engine.put_pool(each, context.scope) for each in documents.pools]
    note = "serve creates the desktops; follow with: vgpumgr pool watch "
    notes = [f"{note}{shlex.quote(changes[0].pool)}"] if any(each.any for each in changes) else []
    return Result(answer=pool_changes(changes), notes=tuple(notes))


class NamedPools(TypedDict):
    """The existing ones of the pools that documents name. ``stays`` are documents of other
    kinds, which a deletion leaves as they are.
    """

    name: str
    pools: list[str]
    stays: str


def find_pools(context: CallContext, asked: PartOfFile) -> Result[NamedPools]:
    """Which pools of the documents there are; UsageError where there are VMs or layouts, too,
    unless the file is mixed.
    """
    documents = documents_of(context.app.ledger, asked)
    if not asked.mixed:
        require_one_way(documents, asked.source)
    there = {each.name for each in context.reads.pools()}
    names = [each.name for each in documents.pools if each.name in there]
    return Result(
        answer={
            "name": source_name(asked.source),
            "pools": names,
            "stays": what_stays(documents),
        }
    )


PLAN_POOLS = Endpoint(
    name="pool.plan",
    method=HttpMethod.POST,
    path="/pools:plan",
    permission=Permission.POOL_READ,
    summary="What applying documents of pools would change; nothing is changed.",
    asks=PartOfFile,
    answers=PoolChanges,
    kind="PoolPlan",
    work=plan_pools,
    runs=Runs.WORKER,
    scoped=True,
    also=(Permission.HOST_READ,),
)
APPLY_POOLS = Endpoint(
    name="pool.apply",
    method=HttpMethod.POST,
    path="/pools:apply",
    permission=Permission.POOL_WRITE,
    summary="Record pools as documents say; `serve` creates their desktops.",
    asks=PartOfFile,
    answers=PoolChanges,
    kind="PoolApply",
    work=apply_pools,
    runs=Runs.WORKER,
    scoped=True,
    also=(Permission.HOST_WRITE,),
)
FIND_POOLS = Endpoint(
    name="pool.find",
    method=HttpMethod.POST,
    path="/pools:find",
    permission=Permission.POOL_READ,
    summary="Which of the pools that documents name there are.",
    asks=PartOfFile,
    answers=NamedPools,
    kind="NamedPools",
    work=find_pools,
    scoped=True,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (PLAN_POOLS, APPLY_POOLS, FIND_POOLS)
