"""What each key of a host or a simulated fleet means, with an example."""

from __future__ import annotations

from collections.abc import Mapping

from vgpumgr.spec.fields import Key

_VERSION = Key("The version of the format.", "apiVersion: vgpumgr/v1")
_HOST = {
    "apiVersion": _VERSION,
    "kind": Key("The kind of the document.", "kind: Host"),
    "name": Key("The host's name: at most 63 small letters, digits and hyphens.", "name: gpu-a"),
    "address": Key(
        "USER@HOST[:PORT] for SSH, `local` for this machine, or sim://NAME for a simulated host.",
        "address: vgpumgr@gpu-a.example.net:2222",
    ),
    "labels": Key(
        "Labels of the host, for `-l`, layouts and the affinity of VMs.", "labels: {site: berlin}"
    ),
    "cordoned": Key("Whether the host is kept from taking new VMs.", "cordoned: true"),
    "cpu_overcommit": Key(
        "The number of vCPUs that may be placed on each CPU.", "cpu_overcommit: 2", "vCPUs per CPU"
    ),
    "reserved_memory": Key("The memory kept from VMs.", "reserved_memory: 16GiB"),
    "accelerator": Key(
        "The accelerator that runs guests; `auto` is KVM where it works, otherwise TCG.",
        "accelerator: kvm",
    ),
    "layout": Key(
        "Who partitions GPUs: Layouts alone, or with `auto` VMs as they need empty ones.",
        "layout: auto",
    ),
    "migration": Key(
        "The address at which the host takes running VMs.", "migration: {address: 10.0.0.7}"
    ),
    "fence": Key(
        "The commands that prove the host to be off.",
        "fence: {off: [/usr/local/sbin/power, 'off'], status: [/usr/local/sbin/power, status]}",
    ),
    "physical_networks": Key(
        "The interfaces of NICs with SR-IOV by the network that they are joined to.",
        "physical_networks: {fabric: [ens1f0, ens2f0]}",
    ),
}

_MIGRATION = {
    "address": Key(
        "The name or IP address at which other hosts reach QEMU on this one.",
        "migration: {address: 10.0.0.7}",
    ),
    "tls": Key(
        "Whether migrations are encrypted, by the certificates of the hosts.",
        "migration: {address: 10.0.0.7, tls: false}",
    ),
    "tls_name": Key(
        "The name in the host's certificate, where it is not the address.",
        "migration: {address: 10.0.0.7, tls_name: gpu-a.example.net}",
    ),
    "bandwidth": Key(
        "The most that a migration transfers per second.",
        "migration: {address: 10.0.0.7, bandwidth: 500MiB}",
    ),
}

_FENCE_LINE = (
    "fence: {off: [/usr/local/sbin/power, 'off'], status: [/usr/local/sbin/power, status]}"
)
_FENCE = {
    "off": Key("The command that switches the host off, as a list of arguments.", _FENCE_LINE),
    "status": Key(
        "The command that prints one line, which ends with `off` when the host is off.",
        _FENCE_LINE,
    ),
    "secret": Key(
        "The name of a secret of the fleet, whose path stands for `{secret}` in the arguments.",
        "fence: {off: [/sbin/power, 'off', '{secret}'], status: [/sbin/power, '{secret}'], "
        "secret: bmc-1}",
    ),
}

_FLEET = {
    "apiVersion": _VERSION,
    "kind": Key("The kind of the document.", "kind: Fleet"),
    "name": Key("The fleet's name: at most 63 small letters, digits and hyphens.", "name: lab"),
    "hosts": Key("The simulated hosts.", "hosts: [{name: t4, gpus: [{board: T4}]}]"),
}

_SIM_HOST = {
    "name": Key(
        "The host's name: at most 63 small letters, digits and hyphens.", "hosts: [{name: t4}]"
    ),
    "count": Key(
        "The number of identical hosts, named NAME-01, NAME-02 and so on.",
        "hosts: [{name: t4, count: 8}]",
        "hosts",
    ),
    "gpus": Key("The GPUs of the host.", "hosts: [{name: t4, gpus: [{board: T4, count: 4}]}]"),
    "cpus": Key("The number of CPUs.", "hosts: [{name: t4, cpus: 128}]", "CPUs"),
    "memory": Key("The memory of the host.", "hosts: [{name: t4, memory: 2TiB}]"),
    "numa_nodes": Key(
        "The number of NUMA nodes.", "hosts: [{name: t4, numa_nodes: 4}]", "NUMA nodes"
    ),
    "hugepages_1gib": Key(
        "The number of huge pages of 1 GiB.", "hosts: [{name: t4, hugepages_1gib: 64}]", "pages"
    ),
    "iommu": Key("Whether the IOMMU is on.", "hosts: [{name: t4, iommu: false}]"),
    "kvm": Key("Whether KVM works.", "hosts: [{name: t4, kvm: false}]"),
    "fabric": Key(
        "The NVSwitch board of the host.",
        "hosts: [{name: hgx, gpus: [{board: H100-SXM5-80GB, count: 8}], fabric: HGX-H100-8}]",
    ),
    "versions": Key(
        "The versions of the software that the host reports.",
        "hosts: [{name: t4, versions: {libvirt: 11.3.0}}]",
    ),
    "pools": Key("The storage pools of the host.", "hosts: [{name: t4, pools: [default, fast]}]"),
    "shared_pools": Key(
        "The storage pools, among `pools`, that other hosts see too.",
        "hosts: [{name: t4, pools: [default, nfs], shared_pools: [nfs]}]",
    ),
    "nics": Key("The NICs with SR-IOV of the host.", "hosts: [{name: t4, nics: [{name: ens1f0}]}]"),
    "ceph_pools": Key(
        "The storage pools, among `pools`, of a Ceph cluster.",
        "hosts: [{name: t4, pools: [default, ceph], ceph_pools: [ceph]}]",
    ),
    "lvm_pools": Key(
        "The storage pools, among `pools`, that are volume groups with a thin pool.",
        "hosts: [{name: t4, pools: [default, fast], lvm_pools: [fast]}]",
    ),
    "networks": Key(
        "The libvirt networks of the host.", "hosts: [{name: t4, networks: [default, lab]}]"
    ),
    "bridges": Key("The bridges of the host.", "hosts: [{name: t4, bridges: [br0, br1]}]"),
    "filters": Key(
        "The network filters of the host's libvirt.",
        "hosts: [{name: t4, filters: [clean-traffic]}]",
    ),
    "tpm": Key("Whether VMs on the host can have a TPM.", "hosts: [{name: t4, tpm: false}]"),
    "secure_boot": Key(
        "Whether VMs on the host can have secure boot.", "hosts: [{name: t4, secure_boot: false}]"
    ),
    "images": Key(
        "The volumes that the storage pools hold at the start.",
        "hosts: [{name: t4, images: [debian-12.qcow2]}]",
    ),
    "cpu_model": Key(
        "The CPU model that the host reports.", "hosts: [{name: t4, cpu_model: AMD EPYC 9554}]"
    ),
    "tls": Key(
        "Whether the host has certificates for encrypted migrations.",
        "hosts: [{name: t4, tls: false}]",
    ),
}

_SIM_NIC = {
    "name": Key("The NIC's interface.", "hosts: [{name: t4, nics: [{name: ens1f0}]}]"),
    "vfs": Key(
        "The number of VFs that are on, 7 at most.",
        "hosts: [{name: t4, nics: [{name: ens1f0, vfs: 7}]}]",
        "VFs",
    ),
    "up": Key(
        "Whether the interface is up.", "hosts: [{name: t4, nics: [{name: ens1f0, up: false}]}]"
    ),
    "trusts": Key(
        "Whether its driver lets VFs be trusted.",
        "hosts: [{name: t4, nics: [{name: ens1f0, trusts: false}]}]",
    ),
    "near_gpu": Key(
        "The number of the GPU, from 0 on, whose root port it is below; -1: its own.",
        "hosts: [{name: t4, gpus: [{board: T4}], nics: [{name: ens1f0, near_gpu: 0}]}]",
        "GPU",
    ),
}

_BOARD = {
    "board": Key("A board of the catalogue.", "hosts: [{name: t4, gpus: [{board: T4}]}]"),
    "count": Key(
        "The number of GPUs of this board.",
        "hosts: [{name: t4, gpus: [{board: T4, count: 4}]}]",
        "GPUs",
    ),
    "vfs": Key(
        "The module option of AMD's driver gim: the number of VFs made when it loads.",
        "hosts: [{name: amd, gpus: [{board: MI300X, vfs: 8}]}]",
        "VFs",
    ),
}

_VERSIONS = {
    "kernel": Key(
        "The version of the kernel.", "hosts: [{name: t4, versions: {kernel: 6.12.0-1-amd64}}]"
    ),
    "libvirt": Key("The version of libvirt.", "hosts: [{name: t4, versions: {libvirt: 11.3.0}}]"),
    "qemu": Key("The version of QEMU.", "hosts: [{name: t4, versions: {qemu: 10.0.2}}]"),
    "driver": Key(
        "The version of the GPU driver.", "hosts: [{name: t4, versions: {driver: 570.133.10}}]"
    ),
}

HOST_KEYS: Mapping[str, Mapping[str, Key]] = {
    "Host": _HOST,
    "MigrationModel": _MIGRATION,
    "FenceModel": _FENCE,
    "Fleet": _FLEET,
    "SimHostModel": _SIM_HOST,
    "BoardModel": _BOARD,
    "SimNicModel": _SIM_NIC,
    "VersionsModel": _VERSIONS,
}
