"""The meaning of each key of VMs, and of what VMs and desktops have in common."""

from __future__ import annotations

from collections.abc import Mapping

from vgpumgr.spec.fields import Key

VERSION = Key("The version of the format.", "apiVersion: vgpumgr/v1")

MACHINE = {
    "vcpus": Key("The number of vCPUs.", "vcpus: 8", "vCPUs"),
    "memory": Key("The memory of the VM.", "memory: 16GiB"),
    "networks": Key(
        "The VM's NICs, each on a bridge or on a libvirt network.", "networks: [{bridge: br0}]"
    ),
    "cloud_init": Key(
        "A NoCloud seed, made for each VM and attached as a disk.",
        'cloud_init: {user_data: "#cloud-config\\n"}',
    ),
    "firmware": Key("The firmware that boots the VM.", "firmware: bios"),
    "display": Key("A screen shown by the first vGPU, for `vm connect`.", "display: true"),
    "console": Key(
        "An emulated screen for `vm connect`, where no vGPU shows one.", "console: true"
    ),
    "screen": Key(
        "The heads and the resolution of the screen: of the vGPU with `display`, else of an "
        "emulated one, which it asks for.",
        "screen: {heads: 2, resolution: 1920x1080}",
    ),
    "agent": Key("A channel for `qemu-guest-agent`, which the image must contain.", "agent: true"),
    "audio": Key("A sound card, which a viewer of the VM's screen can play.", "audio: true"),
    "tpm": Key("An emulated TPM 2.0; its state stays with the VM.", "tpm: true"),
    "cds": Key(
        "CDs in drives of their own, of images of format `iso`; the VM boots from them where its "
        "disks do not.",
        "cds: [{image: debian@12}]",
    ),
    "secure_boot": Key(
        "A firmware that starts signed systems alone; a VM cannot change it later.",
        "secure_boot: true",
    ),
    "os": Key(
        "The guest's operating system, which says what machine it takes: for Windows its clock, "
        "its Hyper-V features, and a TPM and secure boot where it has to have them.",
        "os: windows-server-2025",
    ),
    "guest": Key(
        "What is made of the guest at its first boot, and what shows that it is ready.",
        "guest: {profiles: [docker]}",
    ),
    "cpu_model": Key(
        "The CPU that the guest sees: `host-passthrough`, `host-model`, or a model of libvirt's.",
        "cpu_model: EPYC-Milan",
    ),
    "cpu_shares": Key(
        "The VM's weight where VMs want more CPU than there is; libvirt's default is 1024 or 100.",
        "cpu_shares: 2048",
        "shares",
    ),
    "affinity": Key(
        "The hosts that the VM may run on, and the VMs that share them.",
        "affinity: {hosts: [gpu-a, gpu-b]}",
    ),
    "policy": Key(
        "The order in which GPUs that fit are preferred; left out, the setting `policy` applies.",
        "policy: depth-first",
    ),
    "labels": Key(
        "Labels of the VM, for `-l` and for the affinity of other VMs.", "labels: {team: design}"
    ),
    "tenant": Key("The tenant whose quota the VM counts against.", "tenant: research"),
    "flavour": Key(
        "The flavour that says vcpus, memory, gpus and disks where the file does not.",
        "flavour: small",
    ),
}

_VM = {
    "apiVersion": VERSION,
    "kind": Key("The kind of the document.", "kind: VM"),
    "name": Key(
        "The VM's name: at most 63 small letters, digits and hyphens.", "name: workstation"
    ),
    **MACHINE,
    "gpus": Key(
        "The GPU parts of the VM; an empty list is a VM without a GPU.",
        "gpus: [{profile: A40-8Q}]",
    ),
    "disks": Key("The VM's disks, in the order of their device names.", "disks: [{size: 20GiB}]"),
    "scale": Key(
        "Metrics by which there are more replicas, or fewer; instead of `replicas`.",
        "scale: {max: 8, triggers: [{metric: gpu, threshold: 90%}]}",
    ),
    "replicas": Key(
        "The number of identical VMs, named NAME-01, NAME-02 and so on.", "replicas: 40", "VMs"
    ),
    "autostart": Key("Whether the VM starts when its host boots.", "autostart: true"),
    "pin_cpus": Key(
        "Whether each vCPU is pinned to a CPU that no other VM is pinned to.", "pin_cpus: true"
    ),
    "numa": Key(
        "Whether vCPUs, memory and GPU share one NUMA node: where possible (`prefer`), always "
        "(`require`), or not considered (`none`).",
        "numa: require",
    ),
    "hugepages": Key(
        "The size of the huge pages (2MiB or 1GiB) that back the memory.", "hugepages: 1GiB"
    ),
    "uuid": Key(
        "The machine UUID that the guest sees (SMBIOS), for a VM that came with one; left out, it "
        "is the VM's id.",
        "uuid: 6a5f3c1e-0b7d-4c8e-9f21-3d4e5f6a7b8c",
    ),
    "queue": Key(
        "Whether the VM may wait while nothing has room for it, and on which terms.", "queue: true"
    ),
    "backup": Key(
        "How the VM is backed up by itself, in place of what targets say of it: "
        "[backups](backup.md).",
        "backup: {target: vault, every: 1d, last: 3, daily: 7}",
    ),
    "rolling": Key(
        "How many of the replicas are stopped at a time for a change that needs a stop.",
        "rolling: {at_once: 5}",
    ),
}

_GPU = {
    "profile": Key(
        "A vGPU type, a MIG profile, the profile of a VF, or `passthrough` for a whole GPU.",
        "gpus: [{profile: 1g.10gb}]",
    ),
    "memory": Key(
        "The least GPU memory, instead of a profile: placement takes the smallest part that has "
        "it.",
        "gpus: [{memory: 8GiB}]",
    ),
    "framework": Key(
        "The framework that gives the VM its GPU; `any` leaves the choice to placement.",
        "gpus: [{memory: 8GiB, framework: mdev}]",
    ),
    "frame_rate_limiter": Key(
        "Whether the vGPU's frame rate is limited; left out, the driver's default applies.",
        "gpus: [{profile: L40S-16Q, frame_rate_limiter: false}]",
    ),
    "count": Key(
        "The number of GPU parts of this profile or size.",
        "gpus: [{profile: A40-8Q, count: 2}]",
        "GPU parts",
    ),
    "model": Key(
        "The board, or a list of boards, that the part may be on.",
        "gpus: [{profile: passthrough, model: H100-PCIE-80GB}]",
    ),
}

_DISK = {
    "size": Key(
        "The size of the disk; a copy or an overlay without it is as large as its image.",
        "disks: [{size: 20GiB}]",
    ),
    "pool": Key("The storage pool of the disk.", "disks: [{size: 2TiB, pool: fast}]"),
    "mode": Key(
        "A new empty disk (`fresh`), a copy of an image, or an overlay on top of one.",
        "disks: [{mode: copy, image: cad@12}]",
    ),
    "image": Key(
        "An image with its version, like cad@12, or a volume of the storage pool.",
        "disks: [{mode: overlay, image: debian-12.qcow2}]",
    ),
    "image_format": Key(
        "The format of a volume that is used as image; of an image in the ledger it is known.",
        "disks: [{mode: copy, image: golden.img, image_format: raw}]",
    ),
    "format": Key(
        "The format of the disk; an overlay is always qcow2.",
        "disks: [{size: 20GiB, format: raw}]",
    ),
    "cache": Key(
        "QEMU's cache mode for the disk; left out, it is QEMU's own choice.",
        "disks: [{size: 20GiB, cache: none}]",
    ),
    "serial": Key(
        "The serial number that the guest sees.", "disks: [{size: 20GiB, serial: DATA-1}]"
    ),
    "iops": Key(
        "The most requests per second, reads and writes together.",
        "disks: [{size: 20GiB, iops: 500}]",
        "requests per second",
    ),
    "bandwidth": Key(
        "The most bytes per second, reads and writes together.",
        "disks: [{size: 20GiB, bandwidth: 200MiB}]",
    ),
}

_CD = {
    "image": Key(
        "An image with its version, or a volume of the storage pool.", "cds: [{image: debian@12}]"
    ),
    "pool": Key(
        "The storage pool that the CD's copy lies in.", "cds: [{image: debian@12, pool: fast}]"
    ),
    "boot": Key(
        "Whether the VM boots from the CD before its disks, to be installed or rescued.",
        "cds: [{image: debian@12, boot: true}]",
    ),
}

_NIC = {
    "bridge": Key("A bridge of the host.", "networks: [{bridge: br0}]"),
    "network": Key("A libvirt network of the host.", "networks: [{network: default}]"),
    "sriov": Key(
        "A VF of a NIC of the host's with SR-IOV, instead of a bridge or a network.",
        "networks: [{sriov: {network: fabric}}]",
    ),
    "model": Key(
        "The NIC that the guest sees; e1000e is for systems without virtio drivers.",
        "networks: [{bridge: br0, model: e1000e}]",
    ),
    "vlan": Key(
        "The VLAN of the NIC's port on the bridge, which takes libvirt 11.",
        "networks: [{bridge: br0, vlan: 120}]",
        "tag",
    ),
    "filter": Key(
        "A network filter of the host's libvirt, against spoofed addresses say; or rules on ports.",
        "networks: [{bridge: br0, filter: clean-traffic}]",
    ),
    "inbound": Key(
        "The most bytes per second towards the VM.", "networks: [{bridge: br0, inbound: 100MiB}]"
    ),
    "outbound": Key(
        "The most bytes per second from the VM.", "networks: [{bridge: br0, outbound: 10MiB}]"
    ),
}

_SRIOV = {
    "physical": Key(
        "The interface of the NIC, the same on each host that the VM may go to.",
        "networks: [{sriov: {physical: ens1f0}}]",
    ),
    "network": Key(
        "A physical network: any NIC that its host's `physical_networks` joins to it.",
        "networks: [{sriov: {network: fabric}}]",
    ),
    "vlan": Key(
        "The VLAN that the NIC tags what the VM sends with, and takes off what it gets.",
        "networks: [{sriov: {network: fabric, vlan: 20}}]",
        "tag",
    ),
    "trust": Key(
        "Whether the guest may set the VF's MAC address, and see what is for others.",
        "networks: [{sriov: {network: fabric, trust: true}}]",
    ),
    "spoof_check": Key(
        "Whether the NIC drops what the VM sends from another MAC address than its own.",
        "networks: [{sriov: {network: fabric, spoof_check: false}}]",
    ),
}

_PORT_FILTER = {
    "clean_traffic": Key(
        "Whether libvirt's `clean-traffic` holds, too: no spoofed MAC or IP address.",
        "networks: [{bridge: br0, filter: {clean_traffic: false, allow: [tcp/22]}}]",
    ),
    "allow": Key(
        "What others reach of the guest: `tcp/22`, `tcp/8000-8080`, `udp/53`, `icmp`.",
        "networks: [{bridge: br0, filter: {allow: [tcp/22, icmp]}}]",
    ),
}

_OWN_NIC = {
    **_NIC,
    "mac": Key(
        "The NIC's MAC address; left out, it follows from the VM's id and stays.",
        'networks: [{bridge: br0, mac: "52:54:00:12:34:56"}]',
    ),
}

_CLOUD_INIT = {
    "user_data": Key("The user data, as text.", 'cloud_init: {user_data: "#cloud-config\\n"}'),
    "network_config": Key(
        "The network configuration, as text.", 'cloud_init: {network_config: "version: 2\\n"}'
    ),
    "pool": Key("The storage pool of the seed.", "cloud_init: {pool: fast}"),
    "template": Key(
        "Whether `{{ name }}` and the like are filled in for each VM.",
        'cloud_init: {template: true, user_data: "hostname: {{ name }}"}',
    ),
}

_GUEST = {
    "profiles": Key(
        "Guest profiles, in their order: a name, or a mapping of `name` and `parameters`.",
        "guest: {profiles: [docker, monitoring-agent]}",
    ),
    "user": Key("The account that is made in the guest.", "guest: {user: ada}"),
    "password": Key(
        "The secret of the VM's tenant that is the account's password.",
        "guest: {user: ada, password: ada-desktop}",
    ),
    "locale": Key("The language of the guest.", "guest: {locale: de_DE.UTF-8}"),
    "time_zone": Key("The time zone of the guest.", "guest: {time_zone: Europe/Berlin}"),
    "product_key": Key(
        "The secret that is the product key of Windows.",
        "{os: windows-11, guest: {user: ada, password: ada-desktop, product_key: windows-key}}",
    ),
    "preload": Key(
        "Data that is copied into the guest before it is ready: `from` an address or a folder of "
        "NFS, `to` a folder.",
        "guest: {preload: [{from: 'nfs.lan:/models', to: /srv/models}]}",
    ),
    "ready_within": Key(
        "How long after its start a guest may take to be ready before it counts as failed.",
        "guest: {ready_within: 20m}",
    ),
}

_PRELOAD = {
    "from": Key(
        "An http(s) or rsync address, or a folder of NFS.",
        "guest: {preload: [{from: 'https://mirror.lan/model.bin', to: /srv/models}]}",
    ),
    "to": Key(
        "The folder that it is copied into.",
        "guest: {preload: [{from: 'nfs.lan:/models', to: /srv/models}]}",
    ),
}

_GUEST_PROFILE = {
    "name": Key("The profile.", "guest: {profiles: [{name: docker}]}"),
    "parameters": Key(
        "The profile's parameters; that of a secret is the secret's name.",
        "guest: {profiles: [{name: docker, parameters: {toolkit: no}}]}",
    ),
}

_AFFINITY = {
    "hosts": Key("The hosts that are allowed, by name.", "affinity: {hosts: [gpu-a, gpu-b]}"),
    "host_labels": Key(
        "Labels that an allowed host must have, all of them.",
        "affinity: {host_labels: {site: berlin}}",
    ),
    "together_with": Key(
        "Labels of a VM that must be on the same host.", "affinity: {together_with: {app: cad}}"
    ),
    "apart_from": Key(
        "Labels of VMs that must not be on the same host.",
        "affinity: {apart_from: {role: training}}",
    ),
}

_QUEUE = {
    "priority": Key(
        "The priority among VMs that wait: `high` is 100, `normal` 0, `low` -100; a higher number "
        "comes first.",
        "queue: {priority: high}",
    ),
    "spot": Key(
        "Whether the VM is preemptible: stopped when a VM that is not needs its room, and queued "
        "again.",
        "queue: {spot: true}",
    ),
    "runtime": Key(
        "The longest time that the VM runs: others are planned after it, and then it is stopped.",
        "queue: {runtime: 4h}",
    ),
    "after": Key(
        "The VMs that must have ended before this one starts.", "queue: {after: [prepare]}"
    ),
    "together": Key("Whether all replicas start together or none does.", "queue: {together: true}"),
    "await_hosts": Key(
        "Whether the VM waits for hosts to be added, where no host of the fleet could hold it.",
        "queue: {await_hosts: true}",
    ),
}

_ROLLING = {
    "at_once": Key("How many VMs are stopped at a time.", "rolling: {at_once: 5}", "VMs"),
    "wait_for": Key(
        "What the next wave waits for: that the VMs run (`running`), or that their guest agents "
        "answer, too (`agent`).",
        "rolling: {at_once: 5, wait_for: running}",
    ),
    "within": Key(
        "How long a wave may take to run again before the change stops.",
        "rolling: {at_once: 5, within: 10m}",
    ),
}

_SCREEN = {
    "heads": Key("The number of monitors that the guest sees.", "screen: {heads: 2}", "heads"),
    "resolution": Key(
        "The pixels of each at the start, width and height.", "screen: {resolution: 1920x1080}"
    ),
}

_BACKUP = {
    "target": Key(
        "The backup target, by its name.",
        "backup: {target: vault, every: 1d}",
    ),
    "every": Key(
        "The time between two backups of the VM.",
        "backup: {target: vault, every: 6h}",
    ),
    "last": Key(
        "How many of its newest backups are kept; where none of the three is said, all are.",
        "backup: {target: vault, every: 1d, last: 3}",
        "backups",
    ),
    "daily": Key(
        "Of how many days the newest backup is kept.",
        "backup: {target: vault, every: 1d, daily: 7}",
        "days",
    ),
    "weekly": Key(
        "Of how many weeks the newest backup is kept.",
        "backup: {target: vault, every: 1d, weekly: 4}",
        "weeks",
    ),
}

VM_KEYS: Mapping[str, Mapping[str, Key]] = {
    "VM": _VM,
    "GpuModel": _GPU,
    "DiskModel": _DISK,
    "CdModel": _CD,
    "ScreenModel": _SCREEN,
    "NicModel": _NIC,
    "SriovModel": _SRIOV,
    "PortFilterModel": _PORT_FILTER,
    "OwnNicModel": _OWN_NIC,
    "CloudInitModel": _CLOUD_INIT,
    "GuestModel": _GUEST,
    "GuestProfileModel": _GUEST_PROFILE,
    "PreloadModel": _PRELOAD,
    "AffinityModel": _AFFINITY,
    "QueueModel": _QUEUE,
    "RollingModel": _ROLLING,
    "BackupModel": _BACKUP,
}
"""By the name of the key's model in the schema, then by the key's own."""
