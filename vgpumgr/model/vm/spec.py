"""What a user asks for: one VM, after replicas were expanded and defaults filled in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from vgpumgr.model.terms import Terms

# What VMs, hosts and other documents may be called.
NAME = r"[a-z0-9][a-z0-9-]{0,62}"


class DiskMode(StrEnum):
    """How a disk's volume comes to be."""

    FRESH = "fresh"
    COPY = "copy"
    OVERLAY = "overlay"


class NumaPolicy(StrEnum):
    """Where memory and CPUs lie relative to the GPU."""

    NONE = "none"
    PREFER = "prefer"
    REQUIRE = "require"


class PlacementPolicy(StrEnum):
    """How GPUs are chosen among those that fit."""

    BREADTH_FIRST = "breadth-first"
    DEPTH_FIRST = "depth-first"
    LEAST_FRAGMENTATION = "least-fragmentation"


DEFAULT_POLICY = PlacementPolicy.LEAST_FRAGMENTATION
"""Where nobody chose: it gives out the most before it refuses (docs/placement-figures.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRequest:
    """``count`` GPU parts, optionally only on a GPU of ``model`` or through one ``framework``.

    ``models`` are several models that do alike; it is empty where ``model`` says it all.
    By name (``profile``: a vGPU type, a MIG profile, ``passthrough``) or, with an empty
    ``profile``, by size: the smallest that has ``memory_mib``. ``frame_rate_limiter`` None leaves
    the driver's default.
    """

    profile: str = ""
    count: int = 1
    model: str | None = None
    memory_mib: int | None = None
    framework: str | None = None
    frame_rate_limiter: bool | None = None
    models: tuple[str, ...] = ()

    @property
    def any_of(self) -> tuple[str, ...]:
        """The models that will do, in the user's spelling; empty: any."""
        return self.models or ((self.model,) if self.model is not None else ())


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSpec:
    """One disk. ``size_bytes`` 0 means the image's own size (copy and overlay)."""

    pool: str = "default"
    size_bytes: int = 0
    mode: DiskMode = DiskMode.FRESH
    image: str | None = None
    image_format: str = "qcow2"
    format: str = "qcow2"


@dataclass(frozen=True, slots=True, kw_only=True)
class NicSpec:
    """A NIC on a host bridge or a libvirt network: exactly one of the two."""

    bridge: str | None = None
    network: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudInit:
    """Text of a NoCloud seed. None leaves the file out (meta-data is always made). With
    ``template`` names in the text stand for what the VM is (:mod:`vgpumgr.model.template`).
    ``digest`` stands for text that is kept no longer (:meth:`withheld`); empty where it is there.
    """

    user_data: str | None = None
    network_config: str | None = None
    pool: str = "default"
    template: bool = False
    digest: str = ""

    def withheld(self) -> CloudInit:
        """The same with a digest for its text: what may be kept for longer than the VM."""
        if self.user_data is None and self.network_config is None:
            return self
        digest = seed_digest(self.user_data, self.network_config)
        return CloudInit(pool=self.pool, template=self.template, digest=digest)


def seed_digest(user_data: str | None, network_config: str | None) -> str:
    """What stands for a seed's text where the text may not be kept: ``sha256:…``."""
    text = json.dumps([user_data, network_config])
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Affinity:
    """Where a VM may run. Label maps match when every pair is present."""

    hosts: tuple[str, ...] = ()
    host_labels: Mapping[str, str] = field(default_factory=dict)
    together_with: Mapping[str, str] = field(default_factory=dict)
    apart_from: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class VmSpec:
    """One VM as asked for. Memory in MiB; ``hugepage_kib`` None = ordinary pages. With ``queue`` it
    waits where there is no room for it, and ends when its guest powers off.

    ``display`` is a screen that its first vGPU shows, ``console`` one of an emulated adapter.
    ``agent``: a guest agent answers in it, over a channel of its own.
    """

    name: str
    vcpus: int
    memory_mib: int
    gpus: tuple[GpuRequest, ...] = ()
    disks: tuple[DiskSpec, ...] = ()
    nics: tuple[NicSpec, ...] = ()
    cloud_init: CloudInit | None = None
    firmware: str = "uefi"
    display: bool = False
    console: bool = False
    agent: bool = False
    autostart: bool = False
    pin_cpus: bool = False
    numa: NumaPolicy = NumaPolicy.PREFER
    hugepage_kib: int | None = None
    affinity: Affinity = field(default_factory=Affinity)
    policy: PlacementPolicy | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    tenant: str = "default"
    queue: Terms | None = None
