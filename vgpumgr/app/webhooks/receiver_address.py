"""Where a webhook may send to: which URLs, and to which addresses their names may lead.

A URL is written by a tenant's administrator and connected to by the controller, which reaches more
than the tenant does. So the address counts that a name leads to at the time of the connection.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from vgpumgr.model.errors import UsageError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
MAX_URL = 1000
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?\.?")
_TEXT = re.compile(r"[!-~]+")
# Services of clouds that tell machines their credentials, outside of the link-local networks.
_METADATA = frozenset(
    map(ipaddress.ip_address, ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254"))
)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_HTTPS, _HTTP = 443, 80


class ReceiverRefused(UsageError):
    """A webhook may not send there."""

    code = "usage.webhook"


@dataclass(frozen=True, slots=True)
class ReceiverPlace:
    """The parts of a URL that can be sent to."""

    secure: bool
    host: str
    port: int
    target: str

    @property
    def default_port(self) -> int:
        """The port of its scheme."""
        return _HTTPS if self.secure else _HTTP


@dataclass(frozen=True, slots=True)
class ReceiverRules:
    """Receivers are in one of ``networks``; without any they are anywhere but on this machine, in
    link-local networks and at the metadata services of clouds.
    """

    networks: Sequence[Network] = ()

    def place(self, url: str) -> ReceiverPlace:
        """The parts of a URL; ReceiverRefused for one that is not sent to whatever its name leads
        to.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise _refused(str(error)) from error
        host = parts.hostname or ""
        literal = _address(host)
        if why := _fault(url, parts, literal):
            raise _refused(why)
        is_here = host == "localhost" or (literal is not None and _plain(literal).is_loopback)
        if parts.scheme == "http" and not is_here:
            raise _refused("http is for this machine alone", "an https address")
        if literal is not None and not self.allow(literal):
            raise _refused_address(literal)
        if host == "localhost" and not any(self.allow(each) for each in _HERE):
            raise _refused_address(_HERE[0])
        secure = parts.scheme == "https"
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return ReceiverPlace(secure, host, port or (_HTTPS if secure else _HTTP), target)

    def allow(self, address: Address) -> bool:
        """May a receiver have that address?"""
        plain = _plain(address)
        if self.networks:
            return any(plain in each for each in self.networks)
        own = plain.is_loopback or plain.is_unspecified or plain.is_link_local
        return not (own or plain.is_multicast or plain.is_reserved or plain in _METADATA)

    def resolve(self, place: ReceiverPlace) -> str:
        """The address to connect to; ReceiverRefused where the name leads to none that may be."""
        found = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
        addresses = [str(each[4][0]) for each in found]
        for text in addresses:
            address = _address(text)
            if address is not None and self.allow(address):
                return text
        raise ReceiverRefused(
            f"nothing is sent to {place.host}",
            why=f"its address is {', '.join(sorted(set(addresses)))}, which is not permitted",
            next="the setting webhook_networks",
        )


_HERE = (ipaddress.IPv4Address("127.0.0.1"), ipaddress.IPv6Address("::1"))


def _address(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _plain(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        return inner or address
    return address


def _fault(url: str, parts: SplitResult, literal: Address | None) -> str:
    return next(_faults(url, parts, literal), "")


def _faults(url: str, parts: SplitResult, literal: Address | None) -> Iterator[str]:
    if len(url) > MAX_URL:
        yield f"it is longer than {MAX_URL} characters"
    if not _TEXT.fullmatch(url) or "\\" in url:
        yield "it has characters that no URL has"
    if parts.scheme not in {"https", "http"}:
        yield "it is not an https address"
    if "@" in parts.netloc:
        yield "it names a user: requests are signed, and need no password"
    if parts.fragment:
        yield "it has a part after #"
    if literal is None and not _HOST.fullmatch(parts.hostname or ""):
        yield "it names no machine"
    if parts.port == 0:
        yield "it names no port"


def _refused(why: str, next: str = "https://HOST/PATH") -> ReceiverRefused:
    """Without the URL: what is after its name may be a proof."""
    return ReceiverRefused("no webhook can send to that URL", why=why, next=next)


def _refused_address(address: Address) -> ReceiverRefused:
    return _refused(f"the address {address} is not permitted", "the setting webhook_networks")
