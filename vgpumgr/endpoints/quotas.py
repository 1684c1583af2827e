"""The endpoints of quotas: list, set, delete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typing_extensions import TypedDict

from vgpumgr.access.permission import Permission
from vgpumgr.endpoints.call_context import CallContext
from vgpumgr.endpoints.endpoint import Endpoint, HttpMethod, ParameterLimits, Result
from vgpumgr.endpoints.known_profiles import known_profile
from vgpumgr.endpoints.shapes import ItemList, Nothing
from vgpumgr.endpoints.tags import quota_tag
from vgpumgr.model.codec import to_plain
from vgpumgr.model.errors import UsageError
from vgpumgr.model.quota import Amount, Quota, held_by_tenants
from vgpumgr.model.vm import NAME

if TYPE_CHECKING:
    from vgpumgr.model.ledger import Ledger
    from vgpumgr.model.scoped_reads import ScopedReads

NO_LIMIT: Literal["none"] = "none"
NoLimit = Literal["none"]
Count = Annotated[int, ParameterLimits(ge=0, le=1 << 53)]
Weight = Annotated[float, ParameterLimits(ge=0.01, le=1000.0)]
Tenant = Annotated[str, ParameterLimits(min_length=1, max_length=63, pattern=f"^{NAME}$")]


class TenantLimits(TypedDict):
    """The most a tenant may hold; null is no limit, as is a profile that is not named."""

    gpu_memory_mib: int | None
    gpus: int | None
    vcpus: int | None
    vms: int | None
    profiles: dict[str, int]
    storage_bytes: int | None


class HeldByTenant(TypedDict):
    """What a tenant's VMs hold; ``gpus`` are GPU parts, ``seats`` licences by edition,
    ``storage_bytes`` the sizes of disks.
    """

    gpu_memory_mib: int
    gpus: int
    vcpus: int
    vms: int
    profiles: dict[str, int]
    seats: dict[str, int]
    storage_bytes: int


class QuotaItem(TypedDict):
    """A tenant's limits and what it holds. ``reserved`` parts of profiles are kept for it;
    ``weight`` is its share in the queue.
    """

    name: str
    tenant: str
    limits: TenantLimits
    used: HeldByTenant
    reserved: dict[str, int]
    weight: float


def quota_items(reads: ScopedReads, tenant: str = "") -> list[QuotaItem]:
    """Every tenant that has a quota or holds something (or the one named), by name."""
    quotas = {each.tenant: each for each in reads.quotas()}
    held = held_by_tenants(reads.vms(), reads.allocations(), reads.gpus(), reads.images())
    return [
        _item(quotas.get(name, Quota(tenant=name)), held.get(name, Amount()))
        for name in sorted({*quotas, *held})
        if tenant in {"", name}
    ]


def _item(quota: Quota, held: Amount) -> QuotaItem:
    limits: Any = to_plain(quota)
    reserved, weight = limits.pop("reserved"), limits.pop("weight")
    tenant = limits.pop("tenant")
    return {
        "name": tenant,
        "tenant": tenant,
        "limits": limits,
        "used": to_plain(held),
        "reserved": reserved,
        "weight": weight,
    }


def list_quotas(context: CallContext, _: Nothing) -> Result[ItemList[QuotaItem]]:
    """The tenants that have a quota or hold something."""
    return Result(answer={"items": quota_items(context.reads)})


@dataclass(frozen=True, slots=True, kw_only=True)
class SetQuota:
    """Limits of a tenant. Those that are null, and profiles that are not named, stay as they are;
    ``none`` lifts a limit.
    """

    tenant: Tenant
    gpu_memory_mib: Count | NoLimit | None = None
    gpus: Count | NoLimit | None = None
    vcpus: Count | NoLimit | None = None
    vms: Count | NoLimit | None = None
    storage_bytes: Count | NoLimit | None = None
    profiles: dict[str, Count | NoLimit] | None = None
    reserved: dict[str, Count | NoLimit] | None = None
    weight: Weight | None = None


_AMOUNTS = ("gpu_memory_mib", "gpus", "vcpus", "vms", "storage_bytes")


def set_quota(context: CallContext, asked: SetQuota) -> Result[ItemList[QuotaItem]]:
    """Limit what the tenant may hold; one that holds more keeps it. Answers with its quota."""
    given: dict[str, Any] = {name: getattr(asked, name) for name in _AMOUNTS}
    given = {name: limit for name, limit in given.items() if limit is not None}
    if not (given or asked.profiles or asked.reserved or asked.weight):
        raise UsageError(
            f"no limit is named for tenant {asked.tenant}",
            next="vgpumgr quota set --help lists them",
        )
    ledger, tenant = context.app.writable_ledger, asked.tenant
    before = next((each for each in ledger.quotas() if each.tenant == tenant), Quota(tenant=tenant))
    limits: Any = {name: None if limit == NO_LIMIT else limit for name, limit in given.items()}
    wanted = replace(
        before,
        profiles=_changed(ledger, before.profiles, asked.profiles or {}),
        reserved=_changed(ledger, before.reserved, asked.reserved or {}),
        weight=before.weight if asked.weight is None else asked.weight,
        **limits,
    )
    ledger.set_quota(wanted)
    return Result(answer={"items": quota_items(context.reads, tenant)})


def _changed(
    ledger: Ledger, before: Mapping[str, int], given: Mapping[str, int | str]
) -> dict[str, int]:
    """What had a limit may lose it, even where nothing makes the profile any more."""
    named = {
        name if name in before else known_profile(ledger, name): count
        for name, count in given.items()
    }
    both = {**before, **named}
    return {name: count for name, count in both.items() if isinstance(count, int)}


@dataclass(frozen=True, slots=True, kw_only=True)
class OneTenant:
    """A tenant by its name."""

    tenant: Annotated[str, ParameterLimits(min_length=1, max_length=255)]


class TenantName(TypedDict):
    """A tenant."""

    name: str


def delete_quota(context: CallContext, asked: OneTenant) -> Result[TenantName]:
    """Remove its quota; NotFound where it has none."""
    context.app.writable_ledger.delete_quota(asked.tenant)
    return Result(answer={"name": asked.tenant})


LIST_QUOTAS = Endpoint(
    name="quota.list",
    method=HttpMethod.GET,
    path="/quotas",
    permission=Permission.QUOTA_READ,
    summary="What tenants hold, and may hold.",
    asks=Nothing,
    answers=ItemList[QuotaItem],
    kind="QuotaList",
    work=list_quotas,
    scoped=True,
)
SET_QUOTA = Endpoint(
    name="quota.set",
    method=HttpMethod.PATCH,
    path="/quotas/{tenant}",
    permission=Permission.QUOTA_WRITE,
    summary="Limit what a tenant may hold.",
    asks=SetQuota,
    answers=ItemList[QuotaItem],
    kind="QuotaList",
    tag=quota_tag,
    work=set_quota,
)
DELETE_QUOTA = Endpoint(
    name="quota.delete",
    method=HttpMethod.DELETE,
    path="/quotas/{tenant}",
    permission=Permission.QUOTA_WRITE,
    summary="Remove the quota of a tenant.",
    asks=OneTenant,
    answers=TenantName,
    kind="Tenant",
    tag=quota_tag,
    work=delete_quota,
)

ENDPOINTS: Sequence[Endpoint[Any, Any]] = (LIST_QUOTAS, SET_QUOTA, DELETE_QUOTA)
