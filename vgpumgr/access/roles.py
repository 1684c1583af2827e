"""The permissions of each role: the table that `vgpumgr auth roles` prints."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from vgpumgr.access.permission import Permission
from vgpumgr.model.role_binding import Role

_OWN_TOKENS = frozenset({Permission.TOKEN_OWN})
_READS = frozenset(
    {
        Permission.VM_READ,
        Permission.VM_PLAN,
        Permission.POOL_READ,
        Permission.BOOKING_READ,
        Permission.QUEUE_READ,
        Permission.QUOTA_READ,
        Permission.REPORT_READ,
        Permission.IMAGE_READ,
        Permission.FLEET_READ,
        Permission.HOST_READ,
        Permission.OPERATION_READ,
    }
)
_FLEET_READS = frozenset({Permission.LAYOUT_READ, Permission.DRIFT_READ, Permission.METRICS_READ})
_TENANT_WRITES = frozenset(
    {
        Permission.VM_CREATE,
        Permission.VM_POWER,
        Permission.VM_DELETE,
        Permission.VM_CONSOLE,
        Permission.POOL_WRITE,
        Permission.POOL_ASSIGN,
        Permission.DESKTOP_CONNECT,
        Permission.BOOKING_WRITE,
        Permission.QUEUE_WRITE,
        Permission.OPERATION_ACT,
        Permission.SECRET_READ,
        Permission.SECRET_WRITE,
    }
)
_FLEET_WRITES = frozenset(
    {
        Permission.VM_MIGRATE,
        Permission.QUOTA_WRITE,
        Permission.PRICE_WRITE,
        Permission.POWER_WRITE,
        Permission.CALENDAR_WRITE,
        Permission.NOTIFICATION_READ,
        Permission.NOTIFICATION_WRITE,
        Permission.IMAGE_WRITE,
        Permission.FLAVOUR_WRITE,
        Permission.BACKUP_WRITE,
        Permission.HOST_PROBE,
        Permission.HOST_WRITE,
        Permission.LAYOUT_WRITE,
        Permission.HEAL_APPLY,
        Permission.STORE_READ,
    }
)

PERMISSIONS: Mapping[Role, frozenset[Permission]] = MappingProxyType(
    {
        Role.VIEWER: _READS | _FLEET_READS | _OWN_TOKENS,
        Role.TENANT_USER: _READS | {Permission.DESKTOP_CONNECT} | _OWN_TOKENS,
        Role.TENANT_ADMIN: _READS
        | _TENANT_WRITES
        | {Permission.AUDIT_READ, Permission.ACCESS_READ, Permission.ACCESS_WRITE}
        | {Permission.WEBHOOK_READ, Permission.WEBHOOK_WRITE}
        | _OWN_TOKENS,
        Role.OPERATOR: _READS
        | _FLEET_READS
        | _TENANT_WRITES
        | _FLEET_WRITES
        | {Permission.AUDIT_READ}
        | _OWN_TOKENS,
        Role.AUDITOR: _READS
        | _FLEET_READS
        | {Permission.AUDIT_READ, Permission.ACCESS_READ, Permission.STORE_READ}
        | {Permission.SECRET_READ, Permission.WEBHOOK_READ, Permission.NOTIFICATION_READ}
        | _OWN_TOKENS,
        Role.ADMIN: frozenset(Permission),
    }
)

MEANINGS: Mapping[Role, str] = MappingProxyType(
    {
        Role.VIEWER: "sees everything but the audit trail, changes nothing",
        Role.TENANT_USER: "sees the tenant's things, and connects to the own desktop",
        Role.TENANT_ADMIN: "runs the tenant's VMs and pools, and grants roles in it",
        Role.OPERATOR: "runs the fleet: hosts, layouts, images, quotas, every tenant's VMs",
        Role.AUDITOR: "sees everything, the audit trail and all access too; changes nothing",
        Role.ADMIN: "may do everything",
    }
)
