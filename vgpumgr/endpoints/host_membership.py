"""The endpoints of a host's way into the fleet and out of it: add, trust, upgrade, remove."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, Result, Runs
from vgpumgr.endpoints.host_items import HostItem, probe_summary
from vgpumgr.endpoints.hosts import NamedHosts, OneHost, host_from, show_host
from vgpumgr.endpoints.shapes import Labels, Name, selector
from vgpumgr.model.errors import UnknownHostKey, VgpumgrError
from vgpumgr.model.host import HostRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class NewHost:
    """A host to enrol. ``address`` is ``USER@HOST[:PORT]``, ``local`` (the machine of the server)
    or ``sim://NAME``; ``fingerprint`` is its SSH key's, ``SHA256:…``. Without ``install`` it is
    probed only.
    """

    name: Name
    address: Name
    fingerprint: str = ""
    labels: Labels = ()
    install: bool = True
    accelerator: Literal["auto", "kvm", "tcg"] = "auto"
    layout: Literal["declared", "auto"] = "declared"


class EnrolledHost(TypedDict):
    """A host that was enrolled, and what it has in a few words."""

    name: str
    summary: str


def add_host(context: CallContext, asked: NewHost) -> Result[EnrolledHost]:
    """Pin the SSH key, install the helper, probe. UnknownHostKey, with the key that the host
    shows, where none was given and none is known.
    """
    from vgpumgr.app.enrolment import enrol

    enrolled = enrol(
        context.app,
        host_record(asked),
        fingerprint=asked.fingerprint,
        install=asked.install,
        accept=_refuse_key,
    )
    return Result(answer={"name": enrolled.name, "summary": probe_summary(enrolled)})


def host_record(asked: NewHost) -> HostRecord:
    """What the ledger would have of it, by the checks of a Host document."""
    return host_from(
        name=asked.name,
        address=asked.address,
        labels=dict(selector(asked.labels)),
        accelerator=asked.accelerator,
        layout=asked.layout,
    )


def _refuse_key(host: str, fingerprint: str) -> None:
    raise UnknownHostKey(
        f"{host} shows the key {fingerprint}",
        why="no key was given for it, and none is known",
        next=f"if that key is right, with the fingerprint {fingerprint}",
        fingerprint=fingerprint,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedKey:
    """The new SSH key of a host, ``SHA256:…``, which it must show now."""

    name: Name
    fingerprint: str


def trust_host(context: CallContext, asked: TrustedKey) -> Result[HostItem]:
    """Pin a host's new SSH key."""
    from vgpumgr.app.enrolment import trust

    trust(context.app, asked.name, asked.fingerprint)
    return show_host(context, OneHost(name=asked.name))


class UpgradedHost(TypedDict):
    """The versions of the helper before (empty: unknown) and now."""

    name: str
    before: str
    after: str


class UpgradedHosts(TypedDict):
    """The hosts whose helper was installed."""

    items: list[UpgradedHost]


def upgrade_hosts(context: CallContext, asked: NamedHosts) -> Result[UpgradedHosts]:
    """Install this version's helper on hosts, one after the other until one fails."""
    from vgpumgr.app.enrolment import upgrade_helper

    for name in asked.names:
        context.app.ledger.host(name)
    items: list[UpgradedHost] = []
    for name in asked.names:
        try:
            before, after = upgrade_helper(context.app, name)
        except VgpumgrError as error:
            return Result(answer={"items": items}, error=error)
        items.append({"name": name, "before": before, "after": after})
    return Result(answer={"items": items})


class StayingThings(TypedDict):
    """What of the fleet a host keeps when it is removed, a line each."""

    name: str
    staying: list[str]


def preview_removal(context: CallContext, asked: OneHost) -> Result[StayingThings]:
    """What stays there, by the last probe."""
    staying = context.app.engine.staying(asked.name)
    return Result(answer={"name": asked.name, "staying": list(staying)})


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedHost:
    """A host to take out. ``forget``: it is gone for good, and is not contacted."""

    name: Name
    forget: bool = False


class RemovalEnd(TypedDict):
    """A host that was taken out; ``layouts`` are GPUs whose layout it restores at boot no more."""

    name: str
    layouts: list[str]


def remove_host(context: CallContext, asked: RemovedHost) -> Result[RemovalEnd]:
    """Take a host out with its helper and key; Conflict while anything is allocated there."""
    from vgpumgr.app.enrolment import remove

    layouts = remove(context.app, asked.name, reach=not asked.forget)
    return Result(answer={"name": asked.name, "layouts": list(layouts)})


ADD_HOST = Endpoint(
    name="host.add",
    method=HttpMethod.POST,
    path="/hosts",
    permission=Permission.HOST_WRITE,
    summary="Enrol a host: pin its SSH key, install the helper, probe.",
    asks=NewHost,
    answers=EnrolledHost,
    kind="EnrolledHost",
    work=add_host,
    runs=Runs.WORKER,
)
TRUST_HOST = Endpoint(
    name="host.trust",
    method=HttpMethod.POST,
    path="/hosts/{name}:trust",
    permission=Permission.HOST_WRITE,
    summary="Pin a host's new SSH key.",
    asks=TrustedKey,
    answers=HostItem,
    kind="Host",
    work=trust_host,
    runs=Runs.WORKER,
)
UPGRADE_HOSTS = Endpoint(
    name="host.upgrade",
    method=HttpMethod.POST,
    path="/hosts:upgrade",
    permission=Permission.HOST_WRITE,
    summary="Install this version's helper on hosts.",
    asks=NamedHosts,
    answers=UpgradedHosts,
    kind="HostUpgrade",
    work=upgrade_hosts,
    runs=Runs.WORKER,
)
PREVIEW_REMOVAL = Endpoint(
    name="host.preview-removal",
    method=HttpMethod.GET,
    path="/hosts/{name}/removal",
    permission=Permission.HOST_READ,
    summary="What a host keeps when it is removed.",
    asks=OneHost,
    answers=StayingThings,
    kind="HostRemovalPreview",
    work=preview_removal,
)
REMOVE_HOST = Endpoint(
    name="host.remove",
    method=HttpMethod.POST,
    path="/hosts/{name}:remove",
    permission=Permission.HOST_WRITE,
    summary="Remove a host with its helper and pinned key.",
    asks=RemovedHost,
    answers=RemovalEnd,
    kind="HostRemoval",
    work=remove_host,
    runs=Runs.WORKER,
)

ENDPOINTS = (ADD_HOST, TRUST_HOST, UPGRADE_HOSTS, PREVIEW_REMOVAL, REMOVE_HOST)
