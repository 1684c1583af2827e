"""A bench for MIG: a GPU that can be split into GPU instances, and nothing on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.contract.bench import Bench
from tests.contract.nvml import Nvml
from vgpumgr.hosts.facts import gpu_facts
from vgpumgr.hosts.facts.typed_answer import TypedAnswer
from vgpumgr.model.gpu import GpuInstance, MigFacts, MigProfile


@dataclass(frozen=True, kw_only=True)
class MigBench(Bench):
    """``pf`` is a ``board`` in no MIG mode, with no VF on; ``total`` is its ``sriov_totalvfs``.

    ``small``, ``large`` and ``whole`` are profiles of a quarter or less, a half, and the whole
    GPU; ``media`` is the small one with media extensions. ``compute`` is the compute profile that
    fills a small instance. ``cards`` are GPUs of this board beside ``pf``.
    """

    pf: str
    board: str
    nvml: Nvml
    total: int
    small: str
    large: str
    whole: str
    media: str
    compute: int = 0
    cards: tuple[str, ...] = ()

    def mig(self) -> MigFacts:
        nvml = self.call("gpu_look", gpu=self.pf)["nvml"]
        assert isinstance(nvml, dict)
        found = gpu_facts.mig(self.board, TypedAnswer(nvml["mig"]))
        assert found is not None
        return found

    def profile(self, name: str) -> MigProfile:
        return next(each for each in self.mig().profiles if each.name == name)

    def instances(self) -> tuple[GpuInstance, ...]:
        found = self.mig().instances
        assert found is not None
        return found

    def set_mode(self, on: bool) -> None:
        assert self.call("mig_mode_set", gpu=self.pf, enabled=on) == {"enabled": on, "pending": on}

    def make(self, name: str, start: int | None = None, *compute: int) -> GpuInstance:
        """A GPU instance, as a fresh probe shows it."""
        found = self.profile(name)
        place = {} if start is None else {"start": start}
        ids = {"profile_id": found.profile_id, "size": found.size, "compute": list(compute)}
        made = self.call("gi_create", gpu=self.pf, **ids, **place)
        there = next(each for each in self.instances() if each.id == made["id"])
        assert (there.profile, there.start, there.size) == (name, made["start"], found.size)
        return there

    def destroy(self, there: GpuInstance) -> None:
        args = {"id": there.id, "profile_id": there.profile_id, "start": there.start}
        self.call("gi_destroy", gpu=self.pf, **args)

    def vfs(self, on: bool) -> list[str]:
        """All VFs on or off; their addresses."""
        found = self.call("vfs_set", gpu=self.pf, count=self.total if on else 0)["vfs"]
        assert isinstance(found, list)
        return found

    @contextmanager
    def mig_mode(self) -> Iterator[None]:
        """MIG on; VFs, instances and the mode are off afterwards."""
        self.set_mode(True)
        yield
        self.vfs(False)
        self.empty()
        self.set_mode(False)

    def order(self, count: int) -> list[int]:
        """The places that the card chooses for small instances, one after the other."""
        with self.mig_mode():
            return [self.make(self.small).start for _ in range(count)]

    def empty(self) -> None:
        for each in self.instances():
            self.destroy(each)
