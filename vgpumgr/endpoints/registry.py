"""Every endpoint, by its name."""

from __future__ import annotations

from vgpumgr.endpoints import fleet_map, gpus, layouts, operations, vms
from vgpumgr.endpoints.endpoint import AnyEndpoint

_ALL: tuple[AnyEndpoint, ...] = (
    *fleet_map.ENDPOINTS,
    *gpus.ENDPOINTS,
    *layouts.ENDPOINTS,
    *operations.ENDPOINTS,
    *vms.ENDPOINTS,
)
ENDPOINTS = {each.name: each for each in _ALL}
