"""Every endpoint, by its name."""

from __future__ import annotations

from vgpumgr.endpoints import operations, vms
from vgpumgr.endpoints.endpoint import AnyEndpoint

_ALL: tuple[AnyEndpoint, ...] = (*vms.ENDPOINTS, *operations.ENDPOINTS)
ENDPOINTS = {each.name: each for each in _ALL}
