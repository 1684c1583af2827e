"""Every use case of the engine, by its method, and the operation of the scenarios that kill it."""

from __future__ import annotations

LOOKS = frozenset(
    {
        "adoptable",
        "defrag_plan",
        "domain_xml",
        "drain_plan",
        "drift",
        "evacuation_plan",
        "heal_plan",
        "layout_export",
        "layout_plan",
        "move_plan",
        "plan",
        "queue_outlook",
        "thaw_plan",
    }
)
KILLED_IN = {
    "adopt": "adopt",
    "adopt_layout": "adopt",
    "apply": "create",
    "defrag": "defrag",
    "delete": "delete",
    "drain": "drain",
    "enter_maintenance": "enter maintenance",
    "end_moves": "defrag",
    "enrol": "host",
    "evacuate": "evacuate",
    "fence": "fence",
    "forget_host": "host",
    "heal": "heal",
    "layout_apply": "layout up",
    "leave_maintenance": "leave maintenance",
    "lift": "lift",
    "migrate": "migrate live",
    "reboot": "reboot",
    "remove_host": "host",
    "resume": "heal",
    "shelve": "shelve",
    "start": "start",
    "stop_vms": "stop",
    "thaw": "thaw",
    "undo": "undo create",
    "undrain": "undrain",
}
