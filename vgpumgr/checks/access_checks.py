"""Checks of our access to a host: helper, sudo rule, libvirt, and restore after a reboot."""

from __future__ import annotations

from vgpumgr.checks.check_results import bad, bootstrap, ok, ours, unknown, unread, warn
from vgpumgr.model.examination import Examination, Finding, UnitState

_RESTORE = "vgpumgr-restore.service"
_LIBVIRT = ("libvirtd.socket", "libvirtd.service", "virtqemud.socket", "virtqemud.service")
_UNASKED = "NOPASSWD:"
_ON = frozenset({"enabled", "enabled-runtime", "alias"})


def helper(x: Examination) -> Finding:
    """The helper is installed, and the one that we speak to."""
    check = "helper"
    missing = unread(x, check, "installed")
    if missing is not None:
        return missing
    installed, wanted = x.seen.installed, x.helper_version
    fix = bootstrap(x, "helper")
    if not installed:
        if x.record.probe_only:
            return warn(check, "not installed: the host is probe-only", fix)
        return bad(check, "not installed", fix)
    if installed != wanted:
        text = f"version {installed} is installed, this vgpumgr brings {wanted}"
        return bad(check, text, ours(x, f"vgpumgr host upgrade {x.record.name}"))
    return ok(check, f"version {installed}")


def sudo(x: Examination) -> Finding:
    """One rule lets our user run the helper, and nothing else, without a password."""
    check, user = "sudo", x.seen.user
    if user == "root":
        return ok(check, "connected as root")
    if any(each.part == "root" for each in x.seen.unknown):
        return _no_rule(x)
    missing = unread(x, check, "sudo_rules")
    if missing is not None:
        return missing
    rules = x.seen.sudo_rules or ()
    broad = [each for each in rules if _UNASKED in each and each != x.sudo_rule]
    if broad:
        text = f"{user} may do more than the helper without a password: {'; '.join(broad)}"
        by_hand = (
            f"grep -rn NOPASSWD /etc/sudoers /etc/sudoers.d, and leave {user} only the vgpumgr rule"
        )
        return warn(check, text, bootstrap(x, "helper", by_hand))
    if x.sudo_rule in rules:
        return ok(check, f"{user} may run the helper, nothing else without a password")
    if x.record.probe_only:
        return ok(check, "no rule: the host is probe-only")
    return _no_rule(x)


def _no_rule(x: Examination) -> Finding:
    user = x.seen.user
    by_hand = f"visudo -f /etc/sudoers.d/vgpumgr:   {user} ALL={x.sudo_rule}"
    return bad("sudo", f"no rule lets {user} run the helper", bootstrap(x, "helper", by_hand))


def libvirt(x: Examination) -> Finding:
    """libvirt answers, and comes back after a reboot."""
    check = "libvirt"
    failed = [each.why for each in x.facts.unknown if each.part == check]
    if failed:
        group = f"usermod -aG libvirt {x.seen.user}"
        by_hand = f"systemctl enable --now libvirtd.socket; {group}"
        return bad(check, f"it does not answer: {failed[0]}", bootstrap(x, "libvirt", by_hand))
    missing = unread(x, check, "units")
    if missing is not None:
        return missing
    units = x.seen.units or {}
    if any(name in units and units[name].enabled in _ON for name in _LIBVIRT):
        return ok(check, "answers, and starts with the host")
    by_hand = "systemctl enable libvirtd.service libvirtd.socket"
    return warn(check, "it does not start with the host", bootstrap(x, "libvirt", by_hand))


def restore(x: Examination) -> Finding:
    """After a reboot the host makes the devices of its VMs again by itself."""
    check = "boot restore"
    missing = unread(x, check, "units")
    if missing is not None:
        return missing
    unit = (x.seen.units or {}).get(_RESTORE)
    if unit is None:
        return unknown(check, f"systemd did not report {_RESTORE}")
    if x.record.probe_only and unit.load == "not-found":
        return ok(check, "nothing to restore: the host is probe-only")
    wrong = _wrong(unit)
    if not wrong:
        return ok(check, f"{_RESTORE} is enabled; its last run went well")
    text, by_hand = wrong
    return bad(check, text, bootstrap(x, "boot_restore", by_hand))


def _wrong(unit: UnitState) -> tuple[str, str] | None:
    """What is wrong with the unit, and what to type."""
    if unit.load == "not-found":
        return f"{_RESTORE} is not installed: GPUs of VMs are missing after a reboot", ""
    if unit.enabled not in _ON:
        enable = f"systemctl enable {_RESTORE}"
        return f"{_RESTORE} is {unit.enabled or 'not enabled'}: it does not run at a reboot", enable
    if unit.result != "success":
        look = f"journalctl -b -u {_RESTORE}, then: systemctl restart {_RESTORE}"
        return f"the last run of {_RESTORE} failed: {unit.result}", look
    return None
