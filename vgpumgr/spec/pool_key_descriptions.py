"""The meaning of each key of layouts and of pools of desktops."""

from __future__ import annotations

from collections.abc import Mapping

from vgpumgr.spec.fields import Key
from vgpumgr.spec.vm_key_descriptions import MACHINE, VERSION

_LAYOUT = {
    "apiVersion": VERSION,
    "kind": Key("The kind of the document.", "kind: Layout"),
    "name": Key(
        "The layout's name: at most 63 small letters, digits and hyphens.", "name: training"
    ),
    "hosts": Key("The hosts whose GPUs are partitioned, by name.", "hosts: [gpu-a, gpu-b]"),
    "host_labels": Key(
        "Labels of the hosts whose GPUs are partitioned, instead of their names.",
        "host_labels: {use: training}",
    ),
    "gpus": Key("Rules for GPUs; the first rule that matches a GPU applies.", "gpus: [{vfs: max}]"),
}

_RULE = {
    "model": Key(
        "The board, or a list of boards, that the rule matches; without `devices` too, every GPU.",
        "gpus: [{model: [A40, L40S], vfs: max}]",
    ),
    "devices": Key(
        "The PCI addresses of the GPUs that the rule matches.",
        'gpus: [{devices: ["0000:41:00.0"], mig: false}]',
    ),
    "mig": Key("Whether MIG mode is on.", "gpus: [{model: A100-PCIE-80GB, mig: true}]"),
    "vfs": Key(
        "The number of virtual functions: 0 for none, `max` for all that the GPU can have.",
        "gpus: [{model: A40, vfs: max}]",
        "VFs",
    ),
    "mixed_size": Key(
        "Whether one GPU holds vGPUs of different sizes.",
        "gpus: [{model: L40S, vfs: max, mixed_size: true}]",
    ),
    "instances": Key(
        "The GPU instances that exist at all times.",
        "gpus: [{model: A100-PCIE-80GB, mig: true, instances: [{profile: 3g.40gb}]}]",
    ),
    "scheduler": Key(
        "The policy by which time-sliced vGPUs share the GPU.",
        "gpus: [{model: A40, vfs: max, scheduler: equal-share}]",
    ),
    "scheduler_timing": Key(
        "The time slices of an `equal-share` or `fixed-share` scheduler; `default`: the driver's.",
        "gpus: [{model: A40, vfs: max, scheduler: equal-share, "
        "scheduler_timing: {time_slice_ms: 4}}]",
    ),
    "power": Key(
        "The power limit and the clocks of the GPU.",
        "gpus: [{model: A40, power: {limit_watts: 250}}]",
    ),
}

_TIMING = {
    "time_slice_ms": Key(
        "The length of a vGPU's turn on the GPU, strictly.",
        "gpus: [{model: A40, scheduler: fixed-share, scheduler_timing: {time_slice_ms: 2.5}}]",
        "ms",
    ),
    "frequency_hz": Key(
        "How often turns come round on average: adaptive round robin.",
        "gpus: [{model: A40, scheduler: equal-share, scheduler_timing: {frequency_hz: 480}}]",
        "Hz",
    ),
    "averaging": Key(
        "The averaging factor of `frequency_hz`.",
        "gpus: [{model: A40, scheduler: equal-share, "
        "scheduler_timing: {frequency_hz: 480, averaging: 51}}]",
        "factor",
    ),
}

_POWER = {
    "limit_watts": Key(
        "The power limit within the bounds that the GPU's driver tells; `default`: the board's.",
        "gpus: [{model: A40, power: {limit_watts: 250}}]",
        "watts",
    ),
    "locked_clocks": Key(
        "The least and the most MHz of the GPU's clocks; `default`: they are not locked.",
        "gpus: [{model: A40, power: {locked_clocks: [210, 1410]}}]",
        "MHz",
    ),
}

_INSTANCE = {
    "profile": Key(
        "The MIG profile of the GPU instance.",
        "gpus: [{model: A100-PCIE-80GB, instances: [{profile: 3g.40gb}]}]",
    ),
    "count": Key(
        "The number of GPU instances of this profile.",
        "gpus: [{model: A100-PCIE-80GB, instances: [{profile: 1g.10gb, count: 4}]}]",
        "GPU instances",
    ),
    "start": Key(
        "The first memory slice of the instance; left out, the driver chooses.",
        "gpus: [{model: A100-PCIE-80GB, instances: [{profile: 3g.40gb, start: 4}]}]",
        "memory slice",
    ),
    "compute": Key(
        "The profiles of the compute instances made inside; none, where a vGPU brings its own.",
        "gpus: [{model: A100-PCIE-80GB, instances: [{profile: 3g.40gb, compute: [1c.3g.40gb]}]}]",
    ),
}

_POOL = {
    "apiVersion": VERSION,
    "kind": Key("The kind of the document.", "kind: Pool"),
    "name": Key("The pool's name: at most 63 small letters, digits and hyphens.", "name: cad"),
    **MACHINE,
    "gpus": Key("The GPU parts of each desktop.", "gpus: [{profile: T4-4Q}]"),
    "disks": Key("More disks of each desktop, after the first.", "disks: [{size: 20GiB}]"),
    "image": Key(
        "The image, with its version, that the first disk is an overlay of.", "image: cad@12"
    ),
    "image_size": Key(
        "The size of the first disk; left out, it is as large as its image.", "image_size: 60GiB"
    ),
    "storage_pool": Key("The storage pool of the first disk.", "storage_pool: fast"),
    "names": Key(
        "The pattern of the desktops' names; left out, the pool's name and two digits.",
        "names: 'cad-{n:3}'",
    ),
    "assignment": Key(
        "Whether a desktop is recreated after each user (`floating`) or stays with its first user "
        "(`dedicated`).",
        "assignment: dedicated",
    ),
    "entitlement": Key(
        "The users and groups who may have a desktop.", "entitlement: {groups: [engineers]}"
    ),
    "min": Key("The least number of desktops.", "min: 2", "desktops"),
    "spare": Key("The number of ready desktops that no user has yet.", "spare: 3", "desktops"),
    "max": Key("The largest number of desktops.", "max: 60", "desktops"),
    "time_zone": Key("The time zone of the hours in `schedules`.", "time_zone: Europe/Vienna"),
    "schedules": Key(
        "Hours at which other values of `min` and `spare` apply.",
        'schedules: [{days: [mon-fri], from: "7:00", to: "18:00", min: 20, spare: 5}]',
    ),
    "priority": Key(
        "The priority between two pools that need the same GPU: `high` is 100, `normal` 0, `low` "
        "-100; a higher number comes first.",
        "priority: high",
    ),
    "update": Key("The way in which a new image reaches the desktops.", "update: {when: at-once}"),
    "idle_timeout": Key(
        "The time without activity after which a session is disconnected.", "idle_timeout: 2h"
    ),
    "disconnect_timeout": Key(
        "The time after which a disconnected session ends.", "disconnect_timeout: 30m"
    ),
    "autoheal": Key(
        "The times at which a broken desktop is recreated; `false`, never.", "autoheal: false"
    ),
    "scale_in": Key(
        "Whether a desktop that is not needed is deleted, or shelved: off, with its disks and "
        "without its GPU.",
        "scale_in: shelve",
    ),
    "prewarm": Key(
        "The time before a schedule or booking begins at which its desktops are started.",
        "prewarm: 30m",
    ),
    "learned_hours": Key(
        "Whether as many desktops are spare as users came on the same weekday before, in the time "
        "of `prewarm` to come.",
        "learned_hours: true",
    ),
    "profile_disk": Key(
        "A disk of each user's own, attached to the desktop that the user is on.",
        "profile_disk: {size: 20GiB, pool: nas}",
    ),
    "shrink_after": Key(
        "The time without a user after which a desktop above the target may be removed.",
        "shrink_after: 1h",
    ),
    "scale": Key(
        "Metrics by which the pool grows and shrinks, too.",
        "scale: {triggers: [{metric: sessions, threshold: 80%}]}",
    ),
    "idle_below": Key(
        "The use of its GPU's engines up to which a session is idle, even with a user logged in.",
        "idle_below: 5%",
    ),
}

_PROFILE_DISK = {
    "size": Key(
        "The size of the disk, which is made at a user's first session.",
        "profile_disk: {size: 20GiB, pool: nas}",
    ),
    "pool": Key(
        "The storage pool that it lies in, which all hosts of the desktops share.",
        "profile_disk: {size: 20GiB, pool: nas}",
    ),
    "keep": Key(
        "Whether the users' disks stay when the pool of desktops is deleted.",
        "profile_disk: {size: 20GiB, pool: nas, keep: false}",
    ),
}

_ENTITLEMENT = {
    "users": Key("The users who may have a desktop.", "entitlement: {users: [ada]}"),
    "groups": Key(
        "The groups whose users may have a desktop.", "entitlement: {groups: [engineers]}"
    ),
    "per_user": Key(
        "The largest number of desktops that one user has at a time.",
        "entitlement: {users: [ada], per_user: 2}",
        "desktops",
    ),
}

_HOURS = 'schedules: [{days: [mon-fri, sun], from: "7:00", to: "18:00", min: 20, spare: 5}]'

_SCHEDULE = {
    "days": Key("Days of the week, one by one or as a range.", _HOURS),
    "from": Key("The time of day at which the hours begin.", _HOURS),
    "to": Key("The time of day at which the hours end; before `from`, on the next day.", _HOURS),
    "min": Key("The least number of desktops in these hours.", _HOURS, "desktops"),
    "spare": Key(
        "The number of ready desktops that no user has yet, in these hours.", _HOURS, "desktops"
    ),
    "except": Key(
        "The calendar on whose days these hours do not begin.",
        "schedules: [{days: [mon-fri], from: '7:00', to: '9:00', min: 9, spare: 1, except: at}]",
    ),
}

_UPDATE = {
    "when": Key(
        "Whether a desktop in use is updated when its user logs off, or its user is logged off.",
        "update: {when: at-once}",
    ),
    "step": Key("The number of desktops updated at a time.", "update: {step: 10}", "desktops"),
    "min_ready": Key(
        "The number of desktops that stay ready during an update; left out, half of the spares.",
        "update: {min_ready: 4}",
        "desktops",
    ),
    "soak": Key(
        "The time that the first desktop with the new image must stay ready.",
        "update: {soak: 10m}",
    ),
    "max_failures": Key(
        "The number of desktops that fail to become ready at which the update stops.",
        "update: {max_failures: 3}",
        "desktops",
    ),
    "rollback": Key(
        "Whether a stopped update returns the desktops to the old image.",
        "update: {rollback: false}",
    ),
}

_SCALE = {
    "triggers": Key(
        "The metrics; of several the one that asks for most desktops counts.",
        "scale: {triggers: [{metric: gpu, threshold: 90%}]}",
    ),
    "sustained": Key(
        "The time for which more desktops must be asked for before the pool grows.",
        "scale: {triggers: [{metric: gpu, threshold: 90%}], sustained: 10m}",
    ),
    "cooldown": Key(
        "The time for which as many desktops must not have been asked for before it shrinks.",
        "scale: {triggers: [{metric: gpu, threshold: 90%}], cooldown: 30m}",
    ),
}

_GROUP = "scale: {min: 2, max: 8, triggers: [{metric: gpu, threshold: 90%}]"
_GROUP_SCALE = {
    "min": Key("The least number of replicas.", f"{_GROUP}}}", "VMs"),
    "max": Key("The largest number of replicas.", f"{_GROUP}}}", "VMs"),
    "triggers": Key("The metrics; of several the one that asks for most counts.", f"{_GROUP}}}"),
    "sustained": Key(
        "The time for which more must be asked for before there are more.",
        f"{_GROUP}, sustained: 10m}}",
    ),
    "cooldown": Key(
        "The time for which as many must not have been asked for before there are fewer.",
        f"{_GROUP}, cooldown: 30m}}",
    ),
}

_GROUP_TRIGGER = {
    "metric": Key(
        "What is measured: the use of the GPUs that the replicas are on (`gpu`), their own part of "
        "it (`engine`, `encoder`, `decoder`), or of their memory (`framebuffer`).",
        "scale: {max: 8, triggers: [{metric: encoder, threshold: 60%}]}",
    ),
    "threshold": Key(
        "The mean above which there are too few replicas.",
        "scale: {max: 8, triggers: [{metric: engine, threshold: 40%}]}",
        "%",
    ),
}

_TRIGGER = {
    "metric": Key(
        "What is measured: the use of the GPUs that the desktops are on (`gpu`), their own part of "
        "it (`engine`, `encoder`, `decoder`), of their memory (`framebuffer`), or the share of "
        "desktops that users have (`sessions`).",
        "scale: {triggers: [{metric: encoder, threshold: 60%}]}",
    ),
    "threshold": Key(
        "The mean above which there are too few desktops.",
        "scale: {triggers: [{metric: sessions, threshold: 80%}]}",
        "%",
    ),
}

_AUTOHEAL = {
    "after": Key(
        "The time before the first attempt; it doubles with each further one.",
        "autoheal: {after: 2m}",
    ),
    "attempts": Key(
        "The number of attempts in a row; 0 for none.", "autoheal: {attempts: 3}", "attempts"
    ),
}

POOL_KEYS: Mapping[str, Mapping[str, Key]] = {
    "Layout": _LAYOUT,
    "RuleModel": _RULE,
    "TimingModel": _TIMING,
    "PowerModel": _POWER,
    "InstanceModel": _INSTANCE,
    "Pool": _POOL,
    "ProfileDiskModel": _PROFILE_DISK,
    "EntitlementModel": _ENTITLEMENT,
    "ScheduleModel": _SCHEDULE,
    "UpdateModel": _UPDATE,
    "AutohealModel": _AUTOHEAL,
    "ScaleModel": _SCALE,
    "TriggerModel": _TRIGGER,
    "GroupScaleModel": _GROUP_SCALE,
    "GroupTriggerModel": _GROUP_TRIGGER,
}
"""By the name of the key's model in the schema, then by the key's own."""
