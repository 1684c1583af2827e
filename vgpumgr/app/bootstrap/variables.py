"""The Ansible collection and the variables of its playbook: the user's, and ours per host."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vgpumgr.hosts.helper.helper_installation import install_order
from vgpumgr.hosts.helper.helper_launch import bundle, helper_version
from vgpumgr.hosts.ssh.ssh_config import LOCAL
from vgpumgr.model.errors import UsageError
from vgpumgr.model.host import HostRecord

PLAYBOOK = "vgpumgr.host.host"
CALLBACK = "vgpumgr.host.progress"


def collections_folder() -> Path:
    """The folder that holds ``ansible_collections/``."""
    return Path(__file__).parents[1]


def collection_folder() -> Path:
    """The collection's own folder."""
    return collections_folder() / "ansible_collections" / "vgpumgr" / "host"


OWN_USER = "vgpumgr"
OF_THE_PLAYBOOK = frozenset(
    {
        "vgpumgr_exporter",
        "vgpumgr_lab",
        "vgpumgr_reboot",
        "vgpumgr_reboot_timeout",
        "vgpumgr_require_iommu",
    }
)
_NAME = re.compile(r"[A-Za-z0-9._:-]{1,253}")
Variables = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupRequest:
    """How hosts are to be set up.

    ``check`` only shows what would change. ``keep_user``: they are enrolled as the user who sets
    them up, instead of a locked-down one.
    ``variables`` are the user's, checked by :func:`checked`.
    """

    check: bool = False
    keep_user: bool = False
    variables: Variables = field(default_factory=dict)

    def user(self, given: str) -> str:
        """By whom vgpumgr comes later, to a host that ``given`` sets up."""
        return given if self.keep_user else str(self.variables.get("helper_user", OWN_USER))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What lies on the controller for the roles to send, and where the fleet's CA is."""

    bundle: Path
    installer: Path
    ca_folder: Path
    public_key: str


def checked(variables: Variables) -> Variables:
    """The user's variables; UsageError for a name that no role knows."""
    known = _known()
    for name in variables:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise UsageError(
                f"no role has a variable {name[:80]}",
                next=f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(known))}",
            )
    return variables


def _known() -> frozenset[str]:
    import yaml

    names: set[str] = set(OF_THE_PLAYBOOK)
    for path in sorted(collection_folder().glob("roles/*/meta/argument_specs.yml")):
        spec = yaml.safe_load(path.read_text())
        names |= set(spec["argument_specs"]["main"].get("options", ()))
    return frozenset(names)


def of_host(
    record: HostRecord, host: str, given_user: str, wish: SetupRequest, sent: Sent
) -> Variables:
    """One host's variables. ``host`` is where it is reached, ``given_user`` by whom now."""
    user = wish.user(given_user)
    local = record.address == LOCAL
    return {
        "ansible_connection": LOCAL if local else "ssh",
        "ansible_python_interpreter": "/usr/bin/python3",
        # So that Ansible sees that root needs no sudo, which a bare host may lack.
        "ansible_user": given_user,
        "helper_user": user,
        "helper_user_managed": user != given_user,
        "helper_authorized_keys": [sent.public_key],
        "helper_bundle": str(sent.bundle),
        "helper_bundle_sha256": hashlib.sha256(bundle()).hexdigest(),
        "helper_installer": str(sent.installer),
        "helper_order": install_order(user),
        "helper_version": helper_version(),
        "migration_tls_ca_folder": str(sent.ca_folder),
        "migration_tls_names": list(_names(record, host)),
        # Ansible does not reboot the machine that it runs on.
        **({"vgpumgr_reboot": False} if local else {}),
    }


def _names(record: HostRecord, host: str) -> tuple[str, ...]:
    """What other hosts may call it; UsageError for what no certificate may hold."""
    to = record.migration
    found = dict.fromkeys([record.name, *([to.address, to.tls_name] if to else []), host])
    names = tuple(name for name in found if name and name != LOCAL)
    for name in names:
        if _NAME.fullmatch(name) is None:
            raise UsageError(f"{name[:80]!r} cannot stand in a certificate of {record.name}")
    return names
