"""The modules of the ledger's SQL, each imported when one of its functions is first called."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = (
    "access_events_sql",
    "access_sql",
    "allocations_sql",
    "api_requests_sql",
    "calendars_sql",
    "flavours_sql",
    "gpu_health_sql",
    "gpus_sql",
    "guests_sql",
    "history_sql",
    "hosts_sql",
    "images_sql",
    "licences_sql",
    "logoff_moves_sql",
    "looks_sql",
    "notifications_sql",
    "observations_sql",
    "pools_sql",
    "power_sql",
    "prices_sql",
    "profile_disks_sql",
    "purges",
    "queue_sql",
    "quotas_sql",
    "recovery_sql",
    "refusals_sql",
    "reservations_sql",
    "seals_sql",
    "secrets_sql",
    "tickets_sql",
    "transitions_sql",
    "usage_sql",
    "vm_backups_sql",
    "vms_sql",
    "webhooks_sql",
)


class LateModule:
    """Stands for a module of functions: a command imports only those of which it calls one."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, function: str) -> Callable[..., Any]:
        """The function, which may be named before its module is imported."""

        def call(*args: Any, **named: Any) -> Any:
            return getattr(import_module(self._name), function)(*args, **named)

        call.__name__ = call.__qualname__ = function
        return call


if TYPE_CHECKING:
    from vgpumgr.store.ledger import access as access_sql
    from vgpumgr.store.ledger import access_events as access_events_sql
    from vgpumgr.store.ledger import allocations as allocations_sql
    from vgpumgr.store.ledger import api_requests as api_requests_sql
    from vgpumgr.store.ledger import calendars as calendars_sql
    from vgpumgr.store.ledger import flavours as flavours_sql
    from vgpumgr.store.ledger import gpu_health as gpu_health_sql
    from vgpumgr.store.ledger import gpus as gpus_sql
    from vgpumgr.store.ledger import guests as guests_sql
    from vgpumgr.store.ledger import hosts as hosts_sql
    from vgpumgr.store.ledger import images as images_sql
    from vgpumgr.store.ledger import licences as licences_sql
    from vgpumgr.store.ledger import logoff_moves as logoff_moves_sql
    from vgpumgr.store.ledger import look_schedule as looks_sql
    from vgpumgr.store.ledger import notifications as notifications_sql
    from vgpumgr.store.ledger import observations as observations_sql
    from vgpumgr.store.ledger import pools as pools_sql
    from vgpumgr.store.ledger import power as power_sql
    from vgpumgr.store.ledger import price_books as prices_sql
    from vgpumgr.store.ledger import profile_disks as profile_disks_sql
    from vgpumgr.store.ledger import purges
    from vgpumgr.store.ledger import queue as queue_sql
    from vgpumgr.store.ledger import quotas as quotas_sql
    from vgpumgr.store.ledger import refusals as refusals_sql
    from vgpumgr.store.ledger import request_history as history_sql
    from vgpumgr.store.ledger import reservations as reservations_sql
    from vgpumgr.store.ledger import rollback_recovery as recovery_sql
    from vgpumgr.store.ledger import seals as seals_sql
    from vgpumgr.store.ledger import secrets as secrets_sql
    from vgpumgr.store.ledger import tickets as tickets_sql
    from vgpumgr.store.ledger import transitions as transitions_sql
    from vgpumgr.store.ledger import usage_history as usage_sql
    from vgpumgr.store.ledger import vm_backups as vm_backups_sql
    from vgpumgr.store.ledger import vms as vms_sql
    from vgpumgr.store.ledger import webhooks as webhooks_sql
else:
    access_events_sql = LateModule("vgpumgr.store.ledger.access_events")
    access_sql = LateModule("vgpumgr.store.ledger.access")
    allocations_sql = LateModule("vgpumgr.store.ledger.allocations")
    api_requests_sql = LateModule("vgpumgr.store.ledger.api_requests")
    calendars_sql = LateModule("vgpumgr.store.ledger.calendars")
    flavours_sql = LateModule("vgpumgr.store.ledger.flavours")
    gpu_health_sql = LateModule("vgpumgr.store.ledger.gpu_health")
    gpus_sql = LateModule("vgpumgr.store.ledger.gpus")
    guests_sql = LateModule("vgpumgr.store.ledger.guests")
    hosts_sql = LateModule("vgpumgr.store.ledger.hosts")
    images_sql = LateModule("vgpumgr.store.ledger.images")
    licences_sql = LateModule("vgpumgr.store.ledger.licences")
    logoff_moves_sql = LateModule("vgpumgr.store.ledger.logoff_moves")
    looks_sql = LateModule("vgpumgr.store.ledger.look_schedule")
    notifications_sql = LateModule("vgpumgr.store.ledger.notifications")
    observations_sql = LateModule("vgpumgr.store.ledger.observations")
    pools_sql = LateModule("vgpumgr.store.ledger.pools")
    power_sql = LateModule("vgpumgr.store.ledger.power")
    prices_sql = LateModule("vgpumgr.store.ledger.price_books")
    profile_disks_sql = LateModule("vgpumgr.store.ledger.profile_disks")
    purges = LateModule("vgpumgr.store.ledger.purges")
    queue_sql = LateModule("vgpumgr.store.ledger.queue")
    quotas_sql = LateModule("vgpumgr.store.ledger.quotas")
    refusals_sql = LateModule("vgpumgr.store.ledger.refusals")
    history_sql = LateModule("vgpumgr.store.ledger.request_history")
    reservations_sql = LateModule("vgpumgr.store.ledger.reservations")
    recovery_sql = LateModule("vgpumgr.store.ledger.rollback_recovery")
    seals_sql = LateModule("vgpumgr.store.ledger.seals")
    secrets_sql = LateModule("vgpumgr.store.ledger.secrets")
    tickets_sql = LateModule("vgpumgr.store.ledger.tickets")
    transitions_sql = LateModule("vgpumgr.store.ledger.transitions")
    usage_sql = LateModule("vgpumgr.store.ledger.usage_history")
    vm_backups_sql = LateModule("vgpumgr.store.ledger.vm_backups")
    vms_sql = LateModule("vgpumgr.store.ledger.vms")
    webhooks_sql = LateModule("vgpumgr.store.ledger.webhooks")
