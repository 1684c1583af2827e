"""The menu: pages, and what it takes to see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vgpumgr.web.page_call import PageCall


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """An entry; ``endpoint`` is what its page reads first."""

    title: str
    path: str
    endpoint: str


OWN = "My desktops"
MENU = (
    MenuEntry(OWN, "/desktops", "desktop.mine"),
    MenuEntry("Map", "/map", "map.show"),
    MenuEntry("Hosts", "/hosts", "host.list"),
    MenuEntry("GPUs", "/gpus", "gpu.list"),
    MenuEntry("VMs", "/vms", "vm.list"),
    MenuEntry("Apply", "/apply", "vm.apply"),
    MenuEntry("Pools", "/pools", "pool.list"),
    MenuEntry("Bookings", "/bookings", "booking.list"),
    MenuEntry("Queue", "/queue", "queue.list"),
    MenuEntry("Quotas", "/quotas", "quota.list"),
    MenuEntry("Capacity", "/capacity", "capacity.list"),
    MenuEntry("Use", "/use", "use.show"),
    MenuEntry("Layouts", "/layouts", "layout.show"),
    MenuEntry("Images", "/images", "image.list"),
    MenuEntry("Operations", "/operations", "operation.list"),
    MenuEntry("Drift", "/drift", "drift.list"),
    MenuEntry("Trail", "/trail", "audit.list"),
    MenuEntry("Access", "/access", "role.list"),
    MenuEntry("Settings", "/settings", "settings.show"),
)


def menu_of(call: PageCall, paths: frozenset[str]) -> tuple[MenuEntry, ...]:
    """The entries of who asks: of pages that there are, and that they may see; for a user of
    desktops their own alone.
    """
    seen = (each for each in MENU if each.path in paths and call.may_call(each.endpoint))
    return tuple(each for each in seen if each.title == OWN or not call.is_desktop_user)
