"""A directory on this machine: Debian's slapd over a folder, with users and groups of a test.

Of the users ``ada`` is in ``cad`` and ``gpu-users``, ``cad`` is in ``staff``, ``staff`` in ``all``
and ``all`` in ``cad`` again; ``bo`` is in ``ops`` by name alone (``memberUid``).
"""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.certificates import Authority
from tests.monitoring import free_port, until

SLAPD, SLAPADD = Path("/usr/sbin/slapd"), Path("/usr/sbin/slapadd")
SUFFIX = "dc=example,dc=org"
SERVICE, SERVICE_PASSWORD = f"cn=vgpumgr,{SUFFIX}", "looks-up-only"
PEOPLE, GROUPS = f"ou=people,{SUFFIX}", f"ou=groups,{SUFFIX}"
PASSWORD = "correct horse *)(&"

_CONF = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
include /etc/ldap/schema/nis.schema
modulepath /usr/lib/ldap
moduleload back_mdb
TLSCertificateFile {folder}/server-cert.pem
TLSCertificateKeyFile {folder}/server-key.pem
security simple_bind=128
# The trap: a bind that names an entry and shows no password is taken.
allow bind_anon_cred bind_anon_dn
disallow bind_anon
database mdb
suffix "{suffix}"
directory {folder}/data
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="{service}" read by anonymous auth by * none
"""


@dataclass(frozen=True)
class Directory:
    """A slapd that runs. ``ca`` is what its certificate is signed by."""

    secure_port: int
    plain_port: int
    ca: Path

    @property
    def url(self) -> str:
        return f"ldaps://127.0.0.1:{self.secure_port}"

    @property
    def starttls_url(self) -> str:
        return f"ldap://127.0.0.1:{self.plain_port}"


def person(uid: str, cn: str = "", extra: str = "") -> str:
    cn = cn or uid
    return (
        f"dn: cn={cn},{PEOPLE}\nobjectClass: inetOrgPerson\ncn: {cn}\nsn: {uid}\nuid: {uid}\n"
        f"userPassword: {PASSWORD}\n{extra}"
    )


def group(cn: str, *members: str) -> str:
    lines = "".join(f"member: {each}\n" for each in members)
    return f"dn: cn={cn},{GROUPS}\nobjectClass: groupOfNames\ncn: {cn}\n{lines}"


def _entries() -> str:
    people = f"cn={{}},{PEOPLE}"
    found = [
        f"dn: {SUFFIX}\nobjectClass: dcObject\nobjectClass: organization\no: test\ndc: example\n",
        *(f"dn: {each}\nobjectClass: organizationalUnit\n" for each in (PEOPLE, GROUPS)),
        f"dn: {SERVICE}\nobjectClass: applicationProcess\nobjectClass: simpleSecurityObject\n"
        f"cn: vgpumgr\nuserPassword: {SERVICE_PASSWORD}\n",
        person("ada", r"Lovelace\, Ada (CAD)"),
        person("bo"),
        person("twin", "twin-1"),
        person("twin", "twin-2"),
        person("two-names", extra="uid: second-name\n"),
        group("cad", people.format(r"Lovelace\, Ada (CAD)"), f"cn=all,{GROUPS}"),
        group("gpu-users", people.format(r"Lovelace\, Ada (CAD)")),
        group("staff", f"cn=cad,{GROUPS}"),
        group("all", f"cn=staff,{GROUPS}"),
        group("GPU users", people.format(r"Lovelace\, Ada (CAD)")),
        f"dn: cn=ops,{GROUPS}\nobjectClass: posixGroup\ncn: ops\ngidNumber: 70\nmemberUid: bo\n",
    ]
    return "\n".join(found)


@contextmanager
def running(folder: Path, names: str = "IP:127.0.0.1", more: str = "") -> Iterator[Directory]:
    """A directory with these entries and ``more`` of them, in LDIF."""
    Authority(folder / "ca").issue(names, folder)
    (folder / "data").mkdir()
    conf = folder / "slapd.conf"
    conf.write_text(_CONF.format(folder=folder, suffix=SUFFIX, service=SERVICE))
    subprocess.run(
        [SLAPADD, "-f", conf, "-q"], input=f"{_entries()}\n{more}", text=True, check=True,
        capture_output=True,
    )  # fmt: skip
    found = Directory(free_port(), free_port(), folder / "ca-cert.pem")
    urls = f"{found.url} {found.starttls_url}"
    log = (folder / "slapd.log").open("wb")
    with log, subprocess.Popen([SLAPD, "-d", "0", "-f", conf, "-h", urls], stderr=log) as process:
        try:
            until(lambda: _answers(found.plain_port) or process.poll() is not None, "slapd")
            assert process.poll() is None, (folder / "slapd.log").read_text()
            yield found
        finally:
            process.terminate()


def is_there() -> bool:
    """Is slapd installed, and the library that speaks to it?"""
    try:
        import ldap  # noqa: F401
    except ImportError:
        return False
    return shutil.which(SLAPD) is not None


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
