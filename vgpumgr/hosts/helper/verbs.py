"""What is special about some of the helper's verbs."""

from __future__ import annotations

# Verbs that say whose they are, and in which epoch.
CHANGES = frozenset(
    {
        "mdev_create",
        "mdev_remove",
        "vgpu_create",
        "vgpu_release",
        "vfio_bind",
        "vfio_release",
        "mdev_adopt",
        "vgpu_adopt",
        "vfio_adopt",
        "disown",
        "layout_claim",
        "layout_forget",
        "mig_mode_set",
        "vfs_set",
        "mixed_size_set",
        "scheduler_set",
        "gi_create",
        "gi_destroy",
        "fabric_activate",
        "fabric_deactivate",
        "restore",
        "fleet_join",
        "fleet_leave",
        "forget",
    }
)
# What is worth doing without root, too: each answer names the parts that it could not read.
AS_WE_ARE = frozenset({"probe", "examine"})
# The verdict of a KVM trial is written down on the host.
LEAVES_TRACES = CHANGES | {"kvm_probe"}
# Deadlines of verbs that take longer than an ordinary one, in seconds.
LONG_S = {
    "kvm_probe": 60.0,
    # A TiB at 100 MB/s; a host that is gone is noticed by SSH's keepalives before.
    "file_digest": 4 * 3600.0,
    "restore": 300.0,
    # Rebinding a driver, resetting a GPU and training links take tens of seconds.
    "vfs_set": 180.0,
    "mig_mode_set": 180.0,
    "fabric_activate": 120.0,
    "fabric_deactivate": 120.0,
    "vgpu_create": 60.0,
    "vgpu_release": 60.0,
}
