"""The consoles of running domains: libvirt's status files, a VNC server such as QEMU's, and a guest
at the serial port.

RFB 3.8 (RFC 6143) without password, as QEMU's on a unix socket; the screen is colour bars,
which a pressed key moves. The guest prompts, and echoes what is typed.
"""

from __future__ import annotations

import errno
import posixpath
import socket
import struct
import threading
import zlib
from contextlib import suppress
from dataclasses import dataclass

from lxml import etree

from vgpumgr.domainxml.xml_tree import untrusted
from vgpumgr.helper.facts.domain_files import DEFINED, STATUS
from vgpumgr.helper.verbs.console import SOCKETS
from vgpumgr.sim.libvirt.known_domains import Domain, KnownDomains
from vgpumgr.sim.linux.file_tree import refusal

# It takes no password, as QEMU's on a unix socket; a key that is pressed moves the bars.


WIDTH, HEIGHT, BARS = 640, 400, 8
_VERSION = b"RFB 003.008\n"
_NO_PASSWORD = 1
_MAX_TEXT = 1 << 20
_FORMAT = struct.Struct(">BBBBHHHBBB3x")


@dataclass(frozen=True, slots=True)
class PixelFormat:
    """How a client wants a pixel: bytes, byte order, and each colour's maximum and shift."""

    size: int = 4
    big_endian: bool = False
    most: tuple[int, int, int] = (255, 255, 255)
    shifts: tuple[int, int, int] = (16, 8, 0)

    @classmethod
    def read(cls, data: bytes) -> PixelFormat:
        """From the wire; OSError for one that nobody could mean."""
        bits, _, big_endian, true_colour, *rest = _FORMAT.unpack(data)
        if bits not in {8, 16, 32} or not true_colour or max(rest[3:]) >= bits:
            raise OSError(f"no pixel format: {data.hex()}")
        most, shifts = (rest[0], rest[1], rest[2]), (rest[3], rest[4], rest[5])
        return cls(bits // 8, bool(big_endian), most, shifts)

    def write(self) -> bytes:
        """To the wire."""
        return _FORMAT.pack(self.size * 8, 24, self.big_endian, 1, *self.most, *self.shifts)

    def pixel(self, bar: int) -> bytes:
        """A bar's colour: one bit of its number for each of red, green, blue."""
        parts = zip((4, 2, 1), self.most, self.shifts, strict=True)
        value = sum((most if bar & bit else 0) << shift for bit, most, shift in parts)
        mask = (1 << 8 * self.size) - 1
        return (value & mask).to_bytes(self.size, "big" if self.big_endian else "little")


def serve_vnc(connection: socket.socket, name: str) -> None:
    """Serve one client, in a thread of its own, until the connection ends."""
    threading.Thread(target=_run, args=(connection, name), name="sim-vnc", daemon=True).start()


def _run(connection: socket.socket, name: str) -> None:
    with connection, suppress(OSError):
        _Screen(connection).run(name)


class _Screen:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._format = PixelFormat()
        self._moved = 0
        self._waiting = False

    def run(self, name: str) -> None:
        self._shake_hands()
        title = f"{name} (simulated)".encode()
        head = struct.pack(">HH", WIDTH, HEIGHT) + self._format.write()
        self._connection.sendall(head + struct.pack(">I", len(title)) + title)
        messages = {0: self._pixels, 2: self._encodings, 3: self._update}
        messages |= {4: self._key, 5: self._point, 6: self._text}
        while True:
            kind = self._read(1)[0]
            if kind not in messages:
                raise OSError(f"no message of kind {kind}")
            messages[kind]()

    def _shake_hands(self) -> None:
        self._connection.sendall(_VERSION)
        if self._read(len(_VERSION)) != _VERSION:
            raise OSError("another version")
        self._connection.sendall(bytes((1, _NO_PASSWORD)))
        if self._read(1)[0] != _NO_PASSWORD:
            raise OSError("another kind of security")
        self._connection.sendall(struct.pack(">I", 0))
        self._read(1)  # shared or not

    def _pixels(self) -> None:
        self._format = PixelFormat.read(self._read(3 + _FORMAT.size)[3:])

    def _encodings(self) -> None:
        (count,) = struct.unpack(">xH", self._read(3))
        self._read(4 * count)  # all clients take raw pixels

    def _text(self) -> None:
        (length,) = struct.unpack(">3xI", self._read(7))
        if length > _MAX_TEXT:
            raise OSError("too long a text")
        self._read(length)

    def _key(self) -> None:
        if self._read(7)[0]:
            self._moved += 1
            if self._waiting:
                self._send(0, 0, WIDTH, HEIGHT)

    def _point(self) -> None:
        self._read(5)

    def _update(self) -> None:
        incremental, left, top, width, height = struct.unpack(">BHHHH", self._read(9))
        self._waiting = bool(incremental)
        if not incremental:
            wide, high = min(width, WIDTH - left), min(height, HEIGHT - top)
            self._send(left, top, max(0, wide), max(0, high))

    def _send(self, left: int, top: int, width: int, height: int) -> None:
        self._waiting = False
        bars = [self._format.pixel((bar + self._moved) % BARS) for bar in range(BARS)]
        row = b"".join(bars[(left + x) * BARS // WIDTH] for x in range(width))
        head = struct.pack(">BxHHHHHi", 0, 1, left, top, width, height, 0)
        self._connection.sendall(head + row * height)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._connection.recv(size - len(data))
            if not piece:
                raise OSError("the client has gone")
            data += piece
        return data


_SERIAL_PIECE = 4096
_NUMBERS = 100_000
_INTERRUPT, _ERASE = b"\x03", b"\x7f"


def terminal_of(domain: Domain) -> tuple[int, str]:
    """The pid of a domain's QEMU, and its pseudoterminal."""
    number = zlib.crc32(domain.needs.facts.name.encode()) % _NUMBERS
    return _NUMBERS + number, f"/dev/pts/{number}"


class SerialConsoles:
    """Who is joined to which."""

    def __init__(self) -> None:
        self._joined: dict[str, socket.socket] = {}

    def join(self, domain: Domain) -> socket.socket:
        """A connection to the guest's serial port; EBUSY while there is another."""
        name = domain.needs.facts.name
        before = self._joined.get(name)
        if before is not None and before.fileno() >= 0:
            raise refusal(errno.EBUSY, terminal_of(domain)[1])
        near, far = socket.socketpair()
        domain.viewers.append(far)
        self._joined[name] = far
        threading.Thread(target=_echo, args=(far, name), name="sim-serial", daemon=True).start()
        return near


def _echo(connection: socket.socket, name: str) -> None:
    """A shell that knows nothing but how to echo."""
    prompt = f"{name}:~# ".encode()
    with connection, suppress(OSError):
        connection.sendall(prompt)
        while piece := connection.recv(_SERIAL_PIECE):
            echoed = piece.replace(_INTERRUPT, b"^C\r").replace(_ERASE, b"\b \b")
            connection.sendall(echoed.replace(b"\n", b"").replace(b"\r", b"\r\n" + prompt))


_SUFFIX = ".xml"


class VncConsoles:
    """The part of ``/run/libvirt`` and ``/var/lib/libvirt`` that the helper looks at."""

    def __init__(self, domains: KnownDomains) -> None:
        self._domains = domains
        self._serial = SerialConsoles()

    def keeps(self, path: str) -> bool:
        """Is it libvirt's definition or record of a domain?"""
        return posixpath.dirname(path) in {DEFINED, STATUS} and path.endswith(_SUFFIX)

    def record(self, path: str) -> str:
        """It; FileNotFoundError while no such domain is defined, or runs."""
        folder, name = posixpath.split(path)
        domain = self._domains.find(name.removesuffix(_SUFFIX))
        if domain is not None and folder == DEFINED and domain.persistent:
            return domain.xml
        if domain is None or folder == DEFINED or domain.running is None:
            raise refusal(errno.ENOENT, path)
        live = untrusted(domain.live, "domain")
        for listen in live.iterfind("devices/graphics[@type='vnc']/listen[@type='socket']"):
            listen.set("socket", _socket_path(domain))
        pid, path = terminal_of(domain)
        for port in live.iterfind("devices/serial[@type='pty']"):
            source = port.find("source")
            if source is None:
                source = etree.SubElement(port, "source")
            source.set("path", path)
        status = etree.Element("domstatus", state="running", reason="booted", pid=str(pid))
        status.append(live)
        return etree.tostring(status, encoding="unicode")

    def dial(self, path: str) -> socket.socket:
        """A connection to the VNC server that listens there."""
        for domain in self._domains.all():
            if domain.running is not None and path == _socket_path(domain):
                near, far = socket.socketpair()
                domain.viewers.append(far)
                serve_vnc(far, domain.needs.facts.name)
                return near
        raise refusal(errno.ENOENT, path)

    def terminal(self, path: str, pid: int) -> socket.socket:
        """A connection to a domain's serial port, for one at a time."""
        for domain in self._domains.all():
            if domain.running is not None and (pid, path) == terminal_of(domain):
                return self._serial.join(domain)
        raise refusal(errno.EXDEV, path)


def _socket_path(domain: Domain) -> str:
    return f"{SOCKETS}/domain-{domain.needs.facts.name[:20]}/vnc.sock"
