"""``sudo -n -l [-U USER]``, as far as the helper asks."""

from __future__ import annotations

from collections.abc import Sequence

from vgpumgr.sim.kernel import Kernel
from vgpumgr.sim.linux.setup import USER


def run(kernel: Kernel, args: Sequence[str]) -> tuple[int, str]:
    """The rules of the one user there is, in the words of sudo 1.9."""
    host, rules = kernel.host.name, kernel.setup.sudo_rules
    if tuple(args) != ("-n", "-l", "-U", USER):
        return 1, "sudo: a password is required\n"
    if not rules:
        return 0, f"User {USER} is not allowed to run sudo on {host}.\n"
    listed = "".join(f"    {rule}\n" for rule in rules)
    head = f"Matching Defaults entries for {USER} on {host}:\n    env_reset, use_pty\n\n"
    return 0, f"{head}User {USER} may run the following commands on {host}:\n{listed}"
