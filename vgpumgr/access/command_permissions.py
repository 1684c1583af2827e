"""The permission that each command of the CLI, and what stands for it elsewhere, needs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from vgpumgr.access.permission import Permission as Needs

COMMAND_PERMISSIONS: Mapping[str, Needs] = MappingProxyType(
    {
        "plan": Needs.VM_PLAN,
        "diff": Needs.VM_PLAN,
        "explain": Needs.VM_PLAN,
        "apply": Needs.VM_CREATE,
        "delete": Needs.VM_DELETE,
        "vm list": Needs.VM_READ,
        "vm show": Needs.VM_READ,
        "vm xml": Needs.VM_READ,
        "vm create": Needs.VM_CREATE,
        "vm clone": Needs.VM_CREATE,
        "vm start": Needs.VM_POWER,
        "vm stop": Needs.VM_POWER,
        "vm reboot": Needs.VM_POWER,
        "vm delete": Needs.VM_DELETE,
        "vm connect": Needs.VM_CONSOLE,
        "vm console": Needs.VM_CONSOLE,
        "vm migrate": Needs.VM_MIGRATE,
        "vm snapshot list": Needs.VM_READ,
        "vm snapshot create": Needs.VM_CREATE,
        "vm snapshot revert": Needs.VM_DELETE,
        "vm snapshot delete": Needs.VM_DELETE,
        "allocation list": Needs.VM_READ,
        "image list": Needs.IMAGE_READ,
        "image show": Needs.IMAGE_READ,
        "image import": Needs.IMAGE_WRITE,
        "image retire": Needs.IMAGE_WRITE,
        "flavour list": Needs.VM_PLAN,
        "flavour show": Needs.VM_PLAN,
        "flavour delete": Needs.FLAVOUR_WRITE,
        "queue list": Needs.QUEUE_READ,
        "queue show": Needs.QUEUE_READ,
        "queue explain": Needs.QUEUE_READ,
        "queue cancel": Needs.QUEUE_WRITE,
        "quota list": Needs.QUOTA_READ,
        "quota set": Needs.QUOTA_WRITE,
        "quota delete": Needs.QUOTA_WRITE,
        "pool list": Needs.POOL_READ,
        "pool show": Needs.POOL_READ,
        "pool watch": Needs.POOL_READ,
        "pool explain": Needs.POOL_READ,
        "pool history": Needs.POOL_READ,
        "pool assign": Needs.POOL_ASSIGN,
        "pool release": Needs.POOL_ASSIGN,
        "pool connect": Needs.DESKTOP_CONNECT,
        "pool push-image": Needs.POOL_WRITE,
        "pool scale": Needs.POOL_WRITE,
        "pool drain": Needs.POOL_WRITE,
        "pool delete": Needs.POOL_WRITE,
        "booking list": Needs.BOOKING_READ,
        "booking create": Needs.BOOKING_WRITE,
        "booking delete": Needs.BOOKING_WRITE,
        "gpu list": Needs.FLEET_READ,
        "gpu show": Needs.FLEET_READ,
        "map": Needs.FLEET_READ,
        "capacity": Needs.FLEET_READ,
        "simulate": Needs.FLEET_READ,
        "layout show": Needs.LAYOUT_READ,
        "layout export": Needs.LAYOUT_READ,
        "layout plan": Needs.LAYOUT_READ,
        "layout assert": Needs.LAYOUT_READ,
        "layout apply": Needs.LAYOUT_WRITE,
        "defrag plan": Needs.VM_MIGRATE,
        "defrag list": Needs.VM_READ,
        "defrag apply": Needs.VM_MIGRATE,
        "defrag cancel": Needs.VM_MIGRATE,
        "host list": Needs.HOST_READ,
        "host show": Needs.HOST_READ,
        "host probe": Needs.HOST_PROBE,
        "host add": Needs.HOST_WRITE,
        "host cordon": Needs.HOST_WRITE,
        "host uncordon": Needs.HOST_WRITE,
        "host drain": Needs.HOST_WRITE,
        "host undrain": Needs.HOST_WRITE,
        "host evacuate": Needs.HOST_WRITE,
        "host fence": Needs.HOST_PROGRAM,
        "host maintenance": Needs.HOST_WRITE,
        "host migration": Needs.HOST_WRITE,
        "host remove": Needs.HOST_WRITE,
        "host set": Needs.HOST_WRITE,
        "host trust": Needs.HOST_WRITE,
        "host upgrade": Needs.HOST_WRITE,
        "doctor": Needs.HOST_PROBE,
        "drift": Needs.DRIFT_READ,
        "gpu reset": Needs.HEAL_APPLY,
        "heal": Needs.HEAL_APPLY,
        "adopt": Needs.HEAL_APPLY,
        "operation list": Needs.OPERATION_READ,
        "operation show": Needs.OPERATION_READ,
        "operation resume": Needs.OPERATION_ACT,
        "operation undo": Needs.OPERATION_ACT,
        "audit list": Needs.AUDIT_READ,
        "audit verify": Needs.AUDIT_READ,
        "audit checkpoint": Needs.AUDIT_READ,
        "audit export": Needs.AUDIT_READ,
        "role list": Needs.ACCESS_READ,
        "role grant": Needs.ACCESS_WRITE,
        "role revoke": Needs.ACCESS_WRITE,
        "token list": Needs.TOKEN_OWN,
        "token create": Needs.TOKEN_OWN,
        "token revoke": Needs.TOKEN_OWN,
        "secret list": Needs.SECRET_READ,
        "secret show": Needs.SECRET_READ,
        "secret set": Needs.SECRET_WRITE,
        "secret remove": Needs.SECRET_WRITE,
        "webhook list": Needs.WEBHOOK_READ,
        "webhook show": Needs.WEBHOOK_READ,
        "webhook add": Needs.WEBHOOK_WRITE,
        "webhook remove": Needs.WEBHOOK_WRITE,
        "webhook pause": Needs.WEBHOOK_WRITE,
        "webhook resume": Needs.WEBHOOK_WRITE,
        "webhook test": Needs.WEBHOOK_WRITE,
        "store check": Needs.STORE_READ,
        "store backup": Needs.STORE_ADMIN,
        "store restore": Needs.STORE_ADMIN,
        "store migrate": Needs.STORE_ADMIN,
        "store thaw": Needs.STORE_ADMIN,
    }
)
"""A file may hold more than VMs: `apply` and `delete` need ``pool:write`` for its pools,
``layout:write`` for layouts, ``host:write`` for hosts (:data:`KIND_PERMISSIONS`)."""

KIND_PERMISSIONS: Mapping[str, Needs] = MappingProxyType(
    {
        "VM": Needs.VM_CREATE,
        "Pool": Needs.POOL_WRITE,
        "Layout": Needs.LAYOUT_WRITE,
        "Host": Needs.HOST_WRITE,
    }
)

OPEN_COMMANDS = frozenset(
    {
        *("auth roles", "auth whoami", "auth test", "auth session list", "auth session end"),
        *("schema", "completion", "layout import"),
        *("login", "logout"),
        *("context add", "context list", "context use", "context remove"),
    }
)
"""For everybody: they show, or change, nothing of anybody else's."""

LOCAL_COMMANDS = frozenset(
    {
        *("serve", "api", "audit seal"),
        *("sim up", "sim down", "sim add", "sim power", "sim status", "sim inject"),
    }
)
"""Processes on this machine: whoever may start them has the rights of its files."""
