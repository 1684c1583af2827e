"""Every endpoint, by its name."""

from __future__ import annotations

from vgpumgr.endpoints import (
    access,
    fleet_map,
    gpus,
    host_drains,
    host_evacuations,
    host_membership,
    hosts,
    layouts,
    operations,
    vms,
)
from vgpumgr.endpoints.endpoint import AnyEndpoint

_ALL: tuple[AnyEndpoint, ...] = (
    *access.ENDPOINTS,
    *fleet_map.ENDPOINTS,
    *gpus.ENDPOINTS,
    *hosts.ENDPOINTS,
    *host_drains.ENDPOINTS,
    *host_evacuations.ENDPOINTS,
    *host_membership.ENDPOINTS,
    *layouts.ENDPOINTS,
    *operations.ENDPOINTS,
    *vms.ENDPOINTS,
)
ENDPOINTS = {each.name: each for each in _ALL}
