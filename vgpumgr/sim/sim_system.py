"""The System of a simulated host: the one object under the helper that is replaced."""

from __future__ import annotations

import base64
import contextlib
import errno
import posixpath
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from vgpumgr.helper.system import System
from vgpumgr.helper.verbs.tpm_state import FOLDER as TPM_FOLDER
from vgpumgr.sim.host_faults import Faults
from vgpumgr.sim.linux.file_tree import refusal
from vgpumgr.sim.linux.machine_setup import USER
from vgpumgr.sim.machine import host_programs
from vgpumgr.sim.machine.kernel import Kernel
from vgpumgr.sim.nvml import library

# A file's first bytes and its size, by its path; FileNotFoundError where there is none.
ReadHead = Callable[[str, int], tuple[bytes, int]]
# All of a file.
ReadAll = Callable[[str], Iterator[bytes]]
# A program of the storage's: its status and output by its arguments.
Program = Callable[[Sequence[str]], tuple[int, str]]
# What shows that a file of libvirt's was written.
Stamp = Callable[[str], tuple[int, ...]]


class Consoles(Protocol):
    """What libvirt keeps on disk of running domains, and QEMU's sockets."""

    def keeps(self, path: str) -> bool:
        """Is it libvirt's definition or record of a domain?"""

    def record(self, path: str) -> str:
        """It; FileNotFoundError while no such domain is defined, or runs."""

    def dial(self, path: str) -> socket.socket:
        """A connection to the VNC server that listens there."""

    def terminal(self, path: str, pid: int) -> socket.socket:
        """A connection to the pseudoterminal whose other end that QEMU has."""


class SimSystem(System):
    """The seam over a simulated kernel. ``wait`` takes no time: the clock is put forward.

    ``refuse_write`` is the errno of the next write to the kernel; 0 for none.
    """

    def __init__(
        self,
        kernel: Kernel,
        read_head: ReadHead,
        read_all: ReadAll,
        programs: Mapping[str, Program],
        consoles: Consoles,
        stamp: Stamp,
        faults: Faults | None = None,
    ) -> None:
        super().__init__()
        self._faults = faults or Faults()
        self._left_alone = False
        self._kernel = kernel
        self._tree = kernel.tree
        self._read_head = read_head
        self._programs = programs
        self._read_all = read_all
        self._consoles = consoles
        self._stamp = stamp
        self.refuse_write = 0

    def read(self, path: str) -> str:
        """The whole text of a file."""
        return self._consoles.record(path) if self._consoles.keeps(path) else self._tree.read(path)

    def write(self, path: str, text: str) -> None:
        """One write to an existing sysfs file."""
        if self.refuse_write:
            number, self.refuse_write = self.refuse_write, 0
            raise refusal(number, path)
        self._tree.write(path, text)

    def list(self, path: str) -> list[str]:
        """The names in a directory, sorted."""
        return self._tree.names(path)

    def exists(self, path: str) -> bool:
        """Whether the path is there, links followed."""
        return self._tree.exists(path)

    def stamp(self, path: str) -> tuple[int, ...] | None:
        """What shows that a file was written; None where there is nothing."""
        return self._stamp(path) if self._tree.exists(path) else None

    def link(self, path: str) -> str | None:
        """What a symbolic link says; None when there is no link."""
        try:
            return self._tree.readlink(path)
        except OSError:
            return None

    def real(self, path: str) -> str:
        """The path with every link resolved; as it is where it leads nowhere."""
        try:
            return self._tree.real(path)
        except FileNotFoundError:
            return path

    def store(self, path: str, text: str) -> None:
        """Put a file in place that survives a power cut."""
        self._kernel.store(path, text)

    def store_private(self, path: str, data: bytes) -> None:
        """Put a file in place whose bytes are shown to root."""
        self._kernel.store(path, base64.b64encode(data).decode())

    def remove(self, path: str) -> None:
        """Remove a file, or an empty directory."""
        self._kernel.remove(path)

    def read_bytes(self, path: str, limit: int, inside: str) -> tuple[bytes, int]:
        """The first bytes of a volume below ``inside``, and its size."""
        _check_inside(path, inside)
        if inside == TPM_FOLDER:
            data = base64.b64decode(self._tree.read(path))
            return data[:limit], len(data)
        return self._read_head(path, limit)

    def pieces(self, path: str, inside: str) -> Iterator[bytes]:
        """All of such a volume."""
        _check_inside(path, inside)
        return self._read_all(path)

    def dial(self, path: str, inside: str) -> socket.socket:
        """A connection to QEMU's socket below ``inside``."""
        _check_inside(path, inside)
        return self._consoles.dial(path)

    def terminal(self, path: str, pid: int) -> socket.socket:
        """A connection to the pseudoterminal of a guest's serial port."""
        return self._consoles.terminal(path, pid)

    def busy(self, path: str) -> bool:
        """Whether a running domain has the VFIO group open."""
        name = posixpath.basename(path)
        return name.isdigit() and int(name) in self._kernel.busy_groups()

    def kernel_log(self) -> Sequence[str]:
        """All records of the kernel's log since boot."""
        return self._kernel.log.records()

    @contextlib.contextmanager
    def lock(self, path: str) -> Iterator[None]:
        """Nothing to wait for: a simulated host does one call at a time."""
        yield

    def run(self, argv: Sequence[str], timeout: float) -> tuple[int, str]:
        """The programs of the closed list, as far as they matter here."""
        if argv[0] in self._programs:
            return self._programs[argv[0]](argv[1:])
        return host_programs.run(self._kernel, argv)

    def detached(self, work: Callable[[], Any], seconds: float, alone: str) -> Any:
        """Here and now; a driver that hangs takes no time, but keeps what was left alone."""
        if not self._faults.driver_hangs:
            self._left_alone = False
            return work()
        number = errno.EBUSY if self._left_alone else errno.ETIMEDOUT
        self._left_alone = True
        raise OSError(number, f"no answer within {seconds:g} s")

    def nvml(self) -> Any:
        """The real pynvml, over this host's library; while the driver hangs, who asks waits."""
        self._faults.wait_for_driver()
        return library.nvml_module(self._kernel)

    def root(self) -> bool:
        """We may change everything."""
        return True

    def now(self) -> float:
        """Unix time in seconds."""
        return self._kernel.clock.wall() + self._kernel.setup.clock_ahead_s

    def user(self) -> str:
        """The user that started the helper, through sudo."""
        return USER

    def synchronised(self) -> bool:
        """Whether NTP keeps the clock in step."""
        return self._kernel.setup.synchronised

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self._kernel.clock.wait(seconds)


def _check_inside(path: str, inside: str) -> None:
    if not path.startswith(f"{inside.rstrip('/')}/"):
        raise OSError(errno.EXDEV, f"not inside {inside}", path)
