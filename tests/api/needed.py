"""What each endpoint needs, by the access tables and by what is written here, not by itself."""

from __future__ import annotations

from vgpumgr.access.command_permissions import COMMAND_PERMISSIONS
from vgpumgr.access.permission import FLEET_WIDE, Permission
from vgpumgr.access.roles import PERMISSIONS
from vgpumgr.model.role_binding import Role

VERBS = {
    "adopt": "adopt.apply",
    "apply": "vm.apply",
    "capacity": "capacity.list",
    "doctor": "doctor.run",
    "drift": "drift.list",
    "explain": "vm.explain",
    "heal": "heal.apply",
    "host fence": "host.set-fence",
    "host maintenance": "host.enter-maintenance",
    "host migration": "host.set-migration",
    "map": "map.show",
    "plan": "vm.plan",
    "simulate": "simulate.run",
    "top": "top.show",
    "vm connect": "vm.open-console",
    "vm explain-performance": "vm.performance",
    "vm console": "vm.open-console",
}
"""The endpoint that does what a command's verb says, where it has another name."""

OTHERS: dict[str, Permission | None] = {
    "adopt.layout": Permission.LAYOUT_WRITE,
    "adopt.list": Permission.DRIFT_READ,
    "auth.session.end": None,
    "auth.session.list": None,
    "auth.whoami": None,
    "capacity.fragmentation": Permission.FLEET_READ,
    "defrag.finish": Permission.VM_MIGRATE,
    "host.set-labels": Permission.HOST_WRITE,
    "flavour.apply": Permission.FLAVOUR_WRITE,
    "document.enrol": Permission.HOST_WRITE,
    "document.plan": Permission.VM_PLAN,
    "desktop.release": Permission.DESKTOP_CONNECT,
    "desktop.mine": Permission.DESKTOP_CONNECT,
    "gpu.reset-plan": Permission.LAYOUT_READ,
    "heal.lift": Permission.HEAL_APPLY,
    "heal.plan": Permission.DRIFT_READ,
    "host.check-fence": Permission.HOST_PROGRAM,
    "host.leave-maintenance": Permission.HOST_WRITE,
    "host.plan-drain": Permission.HOST_READ,
    "host.plan-evacuation": Permission.HOST_READ,
    "host.preview-removal": Permission.HOST_READ,
    "host.remove-fence": Permission.HOST_WRITE,
    "host.remove-migration": Permission.HOST_WRITE,
    "host.vms": Permission.HOST_READ,
    "layout.import": Permission.LAYOUT_READ,
    "ledger.show": Permission.FLEET_READ,
    "pool.apply": Permission.POOL_WRITE,
    "pool.find": Permission.POOL_READ,
    "pool.plan": Permission.POOL_READ,
    "pool.remote-desktop": Permission.DESKTOP_CONNECT,
    "vm.remote-desktop": Permission.VM_CONSOLE,
    "settings.show": Permission.STORE_ADMIN,
    "use.show": Permission.FLEET_READ,
    **dict.fromkeys(
        ("upload.begin", "upload.list", "upload.show", "upload.discard"), Permission.IMAGE_WRITE
    ),
    "vm.explain-one": Permission.VM_PLAN,
    "vm.find": Permission.VM_READ,
    "vm.file": Permission.VM_CREATE,
    "vm.users": Permission.VM_READ,
    "vm.plan-move": Permission.VM_MIGRATE,
    "vm.plan-new": Permission.VM_PLAN,
    "vm.preview-delete": Permission.VM_READ,
}
"""Endpoints that are no verb of their own: previews, and parts of a command."""

FOR_ALL_TENANTS = frozenset(
    {
        *("audit.verify", "host.set-labels"),
        *("adopt.list", "adopt.apply", "adopt.layout", "doctor.run", "drift.list", "simulate.run"),
        *("balance.plan", "balance.run", "health.evaluate"),
        *("defrag.plan", "defrag.finish", "defrag.apply", "defrag.cancel"),
        *("heal.plan", "heal.apply", "heal.lift", "gpu.cordon", "gpu.reset", "gpu.reset-plan"),
        *("host.plan-drain", "host.drain", "host.undrain", "host.vms", "host.probe"),
        *("host.enter-maintenance", "host.leave-maintenance", "host.cordon", "host.uncordon"),
        *("host.plan-evacuation", "host.evacuate", "host.set-fence", "host.remove-fence"),
        *("host.check-fence", "host.add", "host.trust", "host.upgrade", "host.preview-removal"),
        *("host.remove", "host.set", "host.set-migration", "host.remove-migration"),
        *("upload.begin", "upload.list", "upload.show", "upload.discard", "image.import"),
        *(
            "power.list",
            "power.show",
            "power.apply",
            "power.remove",
            "price.apply",
            "price.remove",
            "image.retire",
            "quota.set",
            "licence.set",
            "calendar.apply",
            "calendar.remove",
            "notification.list",
            "notification.show",
            "notification.apply",
            "notification.resume",
            "notification.remove",
            "notification.test",
            "licence.delete",
            "quota.delete",
            "vm.plan-move",
            "vm.migrate",
        ),
        *("layout.export", "layout.import", "layout.plan", "layout.assert", "layout.apply"),
        *("layout.show", "metrics.show", "settings.show", "use.show", "document.enrol"),
        *("flavour.apply", "flavour.delete"),
        *("backup.target.create", "backup.target.delete", "backup.target.search"),
    }
)
"""Refused to who is limited to tenants, though they hold the permission there."""


def permissions() -> dict[str, Permission | None]:
    """What each endpoint needs, by its name."""
    named = {VERBS.get(verb, verb.replace(" ", ".")): verb for verb in COMMAND_PERMISSIONS}
    return {**{name: COMMAND_PERMISSIONS[verb] for name, verb in named.items()}, **OTHERS}


def may(role: Role, needed: Permission | None, *, in_all: bool) -> bool:
    """May that role, in one tenant or in all?"""
    if needed is None:
        return True
    return needed in PERMISSIONS[role] and (in_all or needed not in FLEET_WIDE)
