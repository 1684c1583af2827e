"""Permissions: each names what may be done, never to whom it belongs."""

from __future__ import annotations

from enum import StrEnum


class Permission(StrEnum):
    """NOUN:VERB. A permission holds in a scope: in some tenants, or in all."""

    VM_READ = "vm:read"
    VM_PLAN = "vm:plan"
    VM_CREATE = "vm:create"
    VM_POWER = "vm:power"
    VM_DELETE = "vm:delete"
    VM_CONSOLE = "vm:console"
    VM_MIGRATE = "vm:migrate"
    POOL_READ = "pool:read"
    POOL_WRITE = "pool:write"
    POOL_ASSIGN = "pool:assign"
    DESKTOP_CONNECT = "desktop:connect"
    BOOKING_READ = "booking:read"
    BOOKING_WRITE = "booking:write"
    QUEUE_READ = "queue:read"
    QUEUE_WRITE = "queue:write"
    QUOTA_READ = "quota:read"
    QUOTA_WRITE = "quota:write"
    REPORT_READ = "report:read"
    PRICE_WRITE = "price:write"
    POWER_WRITE = "power:write"
    IMAGE_READ = "image:read"
    IMAGE_WRITE = "image:write"
    FLAVOUR_WRITE = "flavour:write"
    BACKUP_WRITE = "backup:write"
    FLEET_READ = "fleet:read"
    HOST_READ = "host:read"
    HOST_PROBE = "host:probe"
    HOST_WRITE = "host:write"
    HOST_PROGRAM = "host:program"
    METRICS_READ = "metrics:read"
    LAYOUT_READ = "layout:read"
    LAYOUT_WRITE = "layout:write"
    OPERATION_READ = "operation:read"
    OPERATION_ACT = "operation:act"
    DRIFT_READ = "drift:read"
    HEAL_APPLY = "heal:apply"
    AUDIT_READ = "audit:read"
    ACCESS_READ = "access:read"
    ACCESS_WRITE = "access:write"
    NOTIFICATION_READ = "notification:read"
    NOTIFICATION_WRITE = "notification:write"
    CALENDAR_WRITE = "calendar:write"
    WEBHOOK_READ = "webhook:read"
    WEBHOOK_WRITE = "webhook:write"
    TOKEN_OWN = "token:own"  # noqa: S105
    SECRET_READ = "secret:read"  # noqa: S105
    SECRET_WRITE = "secret:write"  # noqa: S105
    STORE_READ = "store:read"
    STORE_ADMIN = "store:admin"


FLEET_WIDE = frozenset(
    {
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
        Permission.HOST_PROGRAM,
        Permission.METRICS_READ,
        Permission.LAYOUT_READ,
        Permission.LAYOUT_WRITE,
        Permission.VM_MIGRATE,
        Permission.DRIFT_READ,
        Permission.HEAL_APPLY,
        Permission.STORE_READ,
        Permission.STORE_ADMIN,
    }
)
"""What touches, or shows, the things of all tenants at once: a binding in one tenant never gives
it, whatever the role."""
