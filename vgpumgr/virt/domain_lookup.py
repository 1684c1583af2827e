"""Look-ups of a domain in libvirt, its XML and state, and its removal."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import libvirt

from vgpumgr import domainxml
from vgpumgr.model.domain import DomainFacts, DomainState
from vgpumgr.model.errors import NotFound, OutcomeUnknown
from vgpumgr.virt.libvirt_errors import is_absent, is_unsupported

_STATES = {
    libvirt.VIR_DOMAIN_RUNNING: DomainState.RUNNING,
    libvirt.VIR_DOMAIN_BLOCKED: DomainState.RUNNING,
    libvirt.VIR_DOMAIN_PAUSED: DomainState.PAUSED,
    libvirt.VIR_DOMAIN_SHUTOFF: DomainState.SHUTOFF,
    libvirt.VIR_DOMAIN_CRASHED: DomainState.CRASHED,
}

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_KEEP_TPM = getattr(libvirt, "VIR_DOMAIN_UNDEFINE_KEEP_TPM", 1 << 6)

# Not every driver knows all flags: the strongest that it takes is used.
_UNDEFINE_FLAGS = (
    libvirt.VIR_DOMAIN_UNDEFINE_NVRAM
    | libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
    | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA,
    libvirt.VIR_DOMAIN_UNDEFINE_NVRAM
    | libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
    | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA,
    libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA,
    0,
)


def find(connection: Any, key: str) -> Any:
    """The domain of that UUID or name, or None when there surely is none."""
    by_name = (connection.lookupByName,)
    for lookup in (connection.lookupByUUIDString, *by_name) if _UUID.fullmatch(key) else by_name:
        try:
            return lookup(key)
        except libvirt.libvirtError as error:
            if not is_absent(error):
                raise
    return None


def require(connection: Any, key: str) -> Any:
    """The domain; NotFound when there is none."""
    domain = find(connection, key)
    if domain is None:
        raise NotFound(f"there is no domain {key}")
    return domain


def state(domain: Any) -> DomainState:
    """Its state now."""
    return _STATES.get(domain.state()[0], DomainState.OTHER)


def undefine(domain: Any, *, keep_tpm: bool = False) -> None:
    """Forget it, with all that libvirt keeps beside it; one that is gone is no error. What is asked
    to ``keep_tpm`` is refused where libvirt cannot: it is older than 8.9.
    """
    kept = _KEEP_TPM if keep_tpm else 0
    for flags in (each | kept for each in _UNDEFINE_FLAGS):
        try:
            domain.undefineFlags(flags) if flags else domain.undefine()
        except libvirt.libvirtError as error:
            if is_absent(error):
                return
            if not (flags and is_unsupported(error)):
                raise
        else:
            return


def facts(domain: Any) -> DomainFacts | None:
    """What one domain shows; None when it vanished while we read."""
    try:
        xml = str(domain.XMLDesc(0))
        now = state(domain)
        persistent = bool(domain.isPersistent())
        autostart = persistent and bool(domain.autostart())
    except libvirt.libvirtError as error:
        if is_absent(error):
            return None
        raise
    return replace(
        _parsed(domain.name(), xml), state=now, persistent=persistent, autostart=autostart
    )


def _parsed(name: str, xml: str) -> DomainFacts:
    try:
        return domainxml.parse(xml)
    except ValueError as error:
        raise OutcomeUnknown(
            f"domain {name} cannot be understood", why=str(error), next=f"virsh dumpxml {name}"
        ) from error
