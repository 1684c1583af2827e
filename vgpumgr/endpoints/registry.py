"""Every endpoint, by its name."""

from __future__ import annotations

from vgpumgr.endpoints import (
    access,
    adoptions,
    audit_trail,
    defragmentation,
    diagnoses,
    drifts,
    fleet_map,
    gpus,
    healing,
    host_drains,
    host_evacuations,
    host_membership,
    hosts,
    images,
    layout_exchange,
    layout_plans,
    layouts,
    logoff_moves,
    operations,
    vms,
)
from vgpumgr.endpoints.endpoint import AnyEndpoint

_ALL: tuple[AnyEndpoint, ...] = (
    *access.ENDPOINTS,
    *adoptions.ENDPOINTS,
    *audit_trail.ENDPOINTS,
    *defragmentation.ENDPOINTS,
    *diagnoses.ENDPOINTS,
    *drifts.ENDPOINTS,
    *fleet_map.ENDPOINTS,
    *gpus.ENDPOINTS,
    *healing.ENDPOINTS,
    *host_drains.ENDPOINTS,
    *host_evacuations.ENDPOINTS,
    *host_membership.ENDPOINTS,
    *hosts.ENDPOINTS,
    *images.ENDPOINTS,
    *layout_exchange.ENDPOINTS,
    *layout_plans.ENDPOINTS,
    *layouts.ENDPOINTS,
    *logoff_moves.ENDPOINTS,
    *operations.ENDPOINTS,
    *vms.ENDPOINTS,
)
ENDPOINTS = {each.name: each for each in _ALL}
