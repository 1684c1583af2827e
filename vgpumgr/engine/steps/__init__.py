"""Steps: plain values that know how to look, act and undo. The engine owns the journal.

All modules of steps are imported here: the journal names a step by its class.
"""

from vgpumgr.engine.steps import (
    adoption_steps,
    backup_steps,
    cloud_init_seed,
    device_steps,
    domain_steps,
    evacuation_steps,
    image_steps,
    layout_steps,
    live_migration_steps,
    membership_steps,
    move_steps,
    nic_steps,
    repair_steps,
    volume_steps,
    wave_steps,
)

__all__ = [
    "adoption_steps",
    "backup_steps",
    "cloud_init_seed",
    "device_steps",
    "domain_steps",
    "evacuation_steps",
    "image_steps",
    "layout_steps",
    "live_migration_steps",
    "membership_steps",
    "move_steps",
    "nic_steps",
    "repair_steps",
    "volume_steps",
    "wave_steps",
]
