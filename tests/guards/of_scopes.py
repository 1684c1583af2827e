"""The guards of tenants: each filter of what a scope shows, and what the API refuses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from unittest import mock

from sqlalchemy import true

from tests.api.markers import blue_asks
from tests.guards.registry import Guard, Happened, Place, patched
from tests.two_tenants import BLUE, OF_FILTERS, RED, TwoTenants, leaks
from vgpumgr.access.grants import Grants
from vgpumgr.access.permission import Permission
from vgpumgr.api import worker
from vgpumgr.endpoints import own_documents
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.engine.use_cases import Engine
from vgpumgr.model.errors import Conflict
from vgpumgr.model.role_binding import Role, Scope
from vgpumgr.store.ledger.tenant_filters import FILTERS

_READS = 60


def another_tenants_things_shown(place: Place, kind: str) -> None:
    """One tenant's user reads what this filter is for, again and again."""
    both = TwoTenants(place.ledger)
    told = next(leaks(both.within(BLUE), RED, _READS, [OF_FILTERS[kind]]), "")
    both.close()
    if told:
        raise Happened(told)


def _scenario(kind: str) -> Callable[[Place], None]:
    return partial(another_tenants_things_shown, kind=kind)


_FILTERS = tuple(
    Guard(
        f"scope of {kind}",
        "store/ledger/tenant_filters.py: FILTERS",
        f"a tenant reads {kind} of another",
        partial(mock.patch.dict, FILTERS, {kind: lambda _: true()}),
        _scenario(kind),
    )
    for kind in FILTERS
)


def another_tenants_thing_is_acted_on(place: Place, path: str, body: object) -> None:
    """A tenant's administrator names what is another's; whatever would be done to it is not."""
    with (
        blue_asks(place.folder) as asks,
        mock.patch.object(CallContext, "changing", side_effect=Conflict("it is done")),
        mock.patch.object(Engine, "drain_pool", side_effect=Conflict("it is done")),
    ):
        if asks.inside.ask("POST", f"/v1{path}", asks.secret, body).status == _DONE:
            raise Happened(path)


def what_is_for_all_tenants_is_asked(place: Place) -> None:
    """A tenant's administrator asks for what is on a host."""
    with blue_asks(place.folder) as asks:
        said = asks.inside.ask("GET", "/v1/hosts/h1/vms", asks.secret)
        if said.status == _OK:
            raise Happened(said.text)


def what_is_not_permitted_is_asked(place: Place) -> None:
    """A user of a tenant, who may read, stops a VM of it."""
    with (
        blue_asks(place.folder) as asks,
        mock.patch.object(CallContext, "changing", side_effect=Conflict("it is done")),
    ):
        asks.inside.bind("user", Role.TENANT_USER, BLUE)
        secret = asks.inside.token("user", Role.TENANT_USER, BLUE)
        body = {"names": [f"{BLUE}-vm"]}
        if asks.inside.ask("POST", "/v1/vms:reboot", secret, body).status == _DONE:
            raise Happened("a VM is stopped")


def a_foreign_name_is_planned(place: Place) -> None:
    """A tenant's document has the name of another's VM."""
    part = "gpus: [{profile: T4-4Q}]"
    text = f"apiVersion: vgpumgr/v1\nkind: VM\nname: {RED}-vm\nmemory: 1GiB\nvcpus: 1\n{part}\n"
    with blue_asks(place.folder) as asks:
        body = {"text": text, "source": "f"}
        if asks.inside.ask("POST", "/v1/vms:explain", asks.secret, body).status == _OK:
            raise Happened("another tenant's VM is explained")


def _all_granted(grants: Grants, permission: Permission) -> Scope:
    return grants.scope(permission) or Scope.of(BLUE)


_OK, _DONE = 200, 409
GUARDS = (
    *_FILTERS,
    Guard(
        "VMs named are the caller's",
        "endpoints/call_context.py: CallContext.require_vms",
        "a tenant acts on a VM of another",
        patched(CallContext, "require_vms", lambda *_: None),
        partial(
            another_tenants_thing_is_acted_on, path="/vms:reboot", body={"names": [f"{RED}-vm"]}
        ),
    ),
    Guard(
        "pools named are the caller's",
        "endpoints/call_context.py: CallContext.require_pool",
        "a tenant acts on a pool of another",
        patched(CallContext, "require_pool", lambda *_: None),
        partial(another_tenants_thing_is_acted_on, path=f"/pools/{RED}-pool:drain", body={}),
    ),
    Guard(
        "fleet-wide answers",
        "api/worker.py: require_scoped",
        "a tenant is told what is computed for all",
        patched(worker, "require_scoped", lambda _: None),
        what_is_for_all_tenants_is_asked,
    ),
    Guard(
        "permission of a request",
        "access/grants.py: Grants.require",
        "a user changes what the role does not allow",
        patched(Grants, "require", _all_granted),
        what_is_not_permitted_is_asked,
    ),
    Guard(
        "names of documents",
        "endpoints/own_documents.py: own_vms",
        "a tenant plans another's VM",
        patched(own_documents, "own_vms", lambda _, specs: tuple(specs)),
        a_foreign_name_is_planned,
    ),
)
