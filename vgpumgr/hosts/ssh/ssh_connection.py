"""One SSH connection per host, with at most 8 programs on channels, reopened after a break."""

from __future__ import annotations

import contextlib
import shlex
import threading
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType

import paramiko

from vgpumgr.hosts.deadlines import DEADLINES
from vgpumgr.hosts.program_runner import (
    MAX_ERROR_BYTES,
    MAX_OUTPUT_BYTES,
    CallCut,
    CompletedProgram,
    readable,
)
from vgpumgr.hosts.ssh.handshake import Dial, authenticate, dial, shown_keys, verified
from vgpumgr.hosts.ssh.host_keys import KnownKeys, known_keys
from vgpumgr.hosts.ssh.ssh_config import SshTarget
from vgpumgr.model.errors import HostUnreachable

MAX_CHANNELS = 8
"""sshd's MaxSessions is 10 by default."""
_PIECE = 64 << 10
_LAST_WORDS_S = 1.0


@contextlib.contextmanager
def _breaks_as_os_errors() -> Iterator[None]:
    """paramiko says EOFError or SSHException where a connection broke during a write."""
    try:
        yield
    except (EOFError, paramiko.SSHException) as error:
        raise ConnectionResetError(f"the connection broke: {error}") from error


class ExecChannel:
    """One channel; :meth:`start` sends the command. ``done`` is called once, at close."""

    def __init__(
        self, channel: paramiko.Channel, command: str, done: Callable[[], None], timeout_s: float
    ) -> None:
        self._channel = channel
        self._command = command
        self._done: Callable[[], None] | None = done
        self._timeout_s = timeout_s
        self._lock = threading.Lock()

    def start(self) -> None:
        """Ask the host to run the command; HostUnreachable when it refused or said nothing."""
        with DEADLINES.within(self._timeout_s, self._cut):
            try:
                self._channel.exec_command(self._command)
            except (paramiko.SSHException, EOFError, OSError) as error:
                raise HostUnreachable(
                    "the host did not start our program", why=str(error) or "no answer"
                ) from error

    def complete(self, stdin: bytes, timeout_s: float) -> CompletedProgram:
        """Run to the end; see ``runner.Runner``."""
        self.start()
        with DEADLINES.within(timeout_s, self._cut) as deadline:
            try:
                out = self._exchange(stdin)
                err = self._read_error()
                status = self._channel.recv_exit_status()
            except (paramiko.SSHException, EOFError, OSError) as error:
                if not deadline.fired:
                    raise CallCut(f"the connection broke: {error}") from error
                status = -1
        if deadline.fired:
            raise CallCut(f"no answer within {timeout_s:g} s", timed_out=True)
        if status == -1:
            raise CallCut("the connection broke before the program ended")
        return CompletedProgram(status, out, readable(err))

    def _exchange(self, stdin: bytes) -> bytes:
        try:
            self._channel.sendall(stdin)
            self._channel.shutdown_write()
        except OSError:
            # The program ended without reading: its status and stderr say why.
            if not self._channel.exit_status_ready():
                raise
        out = bytearray()
        while piece := self._channel.recv(_PIECE):
            out += piece
            if len(out) > MAX_OUTPUT_BYTES:
                raise CallCut(f"more than {MAX_OUTPUT_BYTES} bytes of output")
        return bytes(out)

    def _read_error(self) -> bytes:
        err = bytearray()
        while piece := self._channel.recv_stderr(_PIECE):
            err += piece[: MAX_ERROR_BYTES - len(err)]
        return bytes(err)

    def recv(self, size: int) -> bytes:
        """The next bytes of its output; none at its end. OSError when cut."""
        with _breaks_as_os_errors():
            return self._channel.recv(size)

    def sendall(self, data: bytes) -> None:
        """All of ``data`` to its input; OSError when it is gone."""
        with _breaks_as_os_errors():
            self._channel.sendall(data)

    def complaint(self) -> str:
        """What it wrote to stderr, after its output ended."""
        self._channel.settimeout(_LAST_WORDS_S)
        try:
            with _breaks_as_os_errors():
                return readable(self._read_error())
        except OSError:
            return ""

    def close(self) -> None:
        """End it; a second time does nothing, nor does a connection that is gone already."""
        with self._lock:
            done, self._done = self._done, None
        if done is not None:
            self._cut()
            done()

    def _cut(self) -> None:
        with contextlib.suppress(OSError), _breaks_as_os_errors():
            self._channel.close()

    def __enter__(self) -> ExecChannel:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class SshConnection:
    """Fulfils ``runner.Runner``. Connects on first use.

    ``pins`` are the accepted fingerprints, ``advice`` what to do when the host shows another
    key. ``via`` is the jump host's connection, if any. ``channels_opened`` counts for tests.
    """

    def __init__(
        self,
        target: SshTarget,
        pins: frozenset[str],
        *,
        timeout_s: float,
        advice: str,
        via: SshConnection | None = None,
    ) -> None:
        self.target = target
        self.channels_opened = 0
        self._pins = pins
        self._timeout_s = timeout_s
        self._advice = advice
        self._via = via
        self._slots = threading.BoundedSemaphore(MAX_CHANNELS)
        self._lock = threading.Lock()
        self._transport: paramiko.Transport | None = None

    def run(self, argv: Sequence[str], stdin: bytes, timeout_s: float) -> CompletedProgram:
        """Run one program to its end; see ``runner.Runner``."""
        with self.open(argv) as channel:
            return channel.complete(stdin, timeout_s)

    def open(self, argv: Sequence[str]) -> ExecChannel:
        """A channel on which ``argv`` will run; it holds one of the 8 places until closed."""
        if not self._slots.acquire(timeout=self._timeout_s):
            raise HostUnreachable(
                f"all {MAX_CHANNELS} SSH channels to {self.target} are in use",
                why=f"none became free within {self._timeout_s:g} s",
            )
        try:
            channel = self._session()
        except BaseException:
            self._slots.release()
            raise
        self.channels_opened += 1
        return ExecChannel(channel, shlex.join(argv), self._slots.release, self._timeout_s)

    def tunnel(self, target: SshTarget) -> paramiko.Channel:
        """A stream to another host's SSH port, through this one."""
        try:
            return self._connected().open_channel(
                "direct-tcpip",
                (target.host, target.port),
                ("127.0.0.1", 0),
                timeout=self._timeout_s,
            )
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise HostUnreachable(
                f"{target} cannot be reached through {self.target}", why=str(error)
            ) from error

    def close(self) -> None:
        """Drop the connection, and the jump host's."""
        with self._lock:
            if self._transport is not None:
                self._transport.close()
            self._transport = None
        if self._via is not None:
            self._via.close()

    def _session(self) -> paramiko.Channel:
        """A session channel; a connection that turns out to be dead is reopened, once."""
        for last in (False, True):
            transport = self._connected()
            try:
                return transport.open_session(timeout=self._timeout_s)
            except (paramiko.SSHException, EOFError, OSError) as error:
                transport.close()
                if last:
                    raise HostUnreachable(
                        f"{self.target} opens no SSH channel", why=str(error)
                    ) from error
        raise AssertionError("unreachable")

    def _connected(self) -> paramiko.Transport:
        with self._lock:
            if self._transport is None or not self._transport.is_active():
                self._transport = self._connect()
            return self._transport

    def _connect(self) -> paramiko.Transport:
        dialled = dialler(self.target, self._timeout_s, self._via)
        transport = verified(self.target, dialled, self._timeout_s, self._pins, self._advice)
        try:
            authenticate(transport, self.target)
        except BaseException:
            transport.close()
            raise
        return transport


class RemoteProgram:
    """A program at the end of an SSH connection that nobody else uses.

    It may last for hours: it takes none of the channels that calls share.
    """

    def __init__(self, connection: SshConnection, argv: Sequence[str]) -> None:
        self._connection = connection
        try:
            self._channel: ExecChannel = connection.open(argv)
            self._channel.start()
        except BaseException:
            connection.close()
            raise

    def recv(self, size: int) -> bytes:
        """Some bytes of its output."""
        return self._channel.recv(size)

    def sendall(self, data: bytes) -> None:
        """All bytes to its input."""
        self._channel.sendall(data)

    def complaint(self) -> str:
        """What it wrote to stderr."""
        return self._channel.complaint()

    def close(self) -> None:
        """End it, and the connection."""
        self._channel.close()
        self._connection.close()


def start_remote(connect: Callable[[], SshConnection], argv: Sequence[str]) -> RemoteProgram:
    """Start a program over a new connection."""
    return RemoteProgram(connect(), argv)


def dialler(target: SshTarget, timeout_s: float, via: SshConnection | None) -> Dial:
    """How to get a stream to the target's SSH port: straight, or through a jump host."""
    if via is not None:
        return lambda: via.tunnel(target)
    return lambda: dial(target, timeout_s)


def through(
    jumps: Sequence[SshTarget], timeout_s: float, via: SshConnection | None = None
) -> SshConnection | None:
    """The chain of jump hosts. Their keys must be in known_hosts: nothing is accepted unseen."""
    for jump in jumps:
        known = known_keys(jump.known_as)
        advice = _advice(jump, known)
        via = SshConnection(jump, known.accepted, timeout_s=timeout_s, advice=advice, via=via)
    return via


def _advice(jump: SshTarget, known: KnownKeys) -> str:
    if known.authorities and not known.accepted:
        return (
            f"{known.authorities[0]}: @cert-authority is not supported here; put the key of "
            f"{jump.host} itself into known_hosts: ssh-keyscan -p {jump.port} {jump.host}"
        )
    return f"ssh {jump.user}@{jump.host}   (once, to put its key into known_hosts)"


def public_key(
    target: SshTarget,
    pins: frozenset[str],
    timeout_s: float,
    advice: str,
    via: SshConnection | None = None,
) -> str:
    """The pinned key that a host shows, as known_hosts files write it, without authenticating."""
    transport = verified(target, dialler(target, timeout_s, via), timeout_s, pins, advice)
    key = transport.get_remote_server_key()
    transport.close()
    return f"{key.get_name()} {key.get_base64()}"


def fingerprints(
    target: SshTarget, timeout_s: float, via: SshConnection | None = None
) -> tuple[str, ...]:
    """The keys a host shows, the one to pin first; for enrolment, without authenticating."""
    return shown_keys(target, dialler(target, timeout_s, via), timeout_s)
