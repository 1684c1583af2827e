"""``vgpumgr host fence``: how a host is switched off from here, and how it is known to be off."""

from __future__ import annotations

import json
from typing import Any

import click

from vgpumgr import API_VERSION
from vgpumgr.cli.context import Context, pass_context
from vgpumgr.cli.output import output_option, say
from vgpumgr.cli.progress import changing
from vgpumgr.cli.selectors import completed
from vgpumgr.model.errors import UsageError
from vgpumgr.model.fence import Fence, says_off
from vgpumgr.model.host import HostRecord


@click.command()
@click.argument("name", shell_complete=completed("hosts"))
@click.option("--off", metavar="JSON", help="JSON list: the command that switches the host off.")
@click.option(
    "--status", metavar="JSON", help="JSON list: the command that reports whether the host is off."
)
@click.option(
    "-f", "--file", "file", help="YAML file with its Host document, whose fence block is used."
)
@click.option("--check", is_flag=True, help="Run the status command now; nothing is switched off.")
@click.option("--remove", is_flag=True, help="Remove the fence block.")
@output_option
@pass_context
def fence(context: Context, /, name: str, **options: Any) -> None:
    """Set the fence block of a host: two programs that run on this machine, without a shell.

    \b
    vgpumgr host fence gpu2 \\
      --off    '["/usr/bin/ipmitool","-H","bmc2","-U","adm","-f","/etc/bmc2","power","off"]' \\
      --status '["/usr/bin/ipmitool","-H","bmc2","-U","adm","-f","/etc/bmc2","power","status"]'

    Passwords belong into a file that the program reads. libvirt on a host with such a block
    starts no VM by itself: `vm start` and `serve` do.
    """
    record = context.app.ledger.host(name)
    _require_one(name, options)
    if options["check"]:
        _check(context, record)
        return
    wanted = None if options["remove"] else _wanted(context, record, options)
    with changing(context, len(context.app.ledger.vms())) as engine:
        outcome = engine.fence(name, wanted)
    say(f"{name}: {f'is fenced with {wanted.off[0]}' if wanted else 'has no fence block'}")
    outcome.raise_for_failure()


def _require_one(name: str, options: dict[str, Any]) -> None:
    flags = bool(options["off"] or options["status"])
    if flags + sum(bool(options[key]) for key in ("file", "check", "remove")) != 1:
        raise UsageError(
            "one of: --off with --status, -f, --check, --remove",
            next=f"vgpumgr host fence {name} --off '[…]' --status '[…]'",
        )
    if flags and not (options["off"] and options["status"]):
        raise UsageError("--off and --status belong together", next="both, each a JSON list")


def _check(context: Context, record: HostRecord) -> None:
    from vgpumgr.app.fencing import words

    if record.fence is None:
        raise UsageError(
            f"{record.name} has no fence block",
            next=f"vgpumgr host fence {record.name} --off '[…]' --status '[…]'",
        )
    ran = context.app.fences.status(record.fence)
    off = says_off(ran.code, ran.out)
    say(f"{record.name}: status says {words(ran)}: {'off' if off else 'not off'}")


def _wanted(context: Context, record: HostRecord, options: dict[str, Any]) -> Fence:
    if options["file"]:
        return _from_file(context, record.name, options["file"])
    return _from_flags(record, options)


def _from_file(context: Context, name: str, file: str) -> Fence:
    from vgpumgr.cli.files import load_documents

    found = [host for host in load_documents(context, file).hosts if host.name == name]
    if not found or found[0].fence is None:
        raise UsageError(
            f"{file} has no fence block for {name}",
            next=f"a document with kind: Host, name: {name}, fence: {{off: […], status: […]}}",
        )
    return found[0].fence


def _from_flags(record: HostRecord, options: dict[str, Any]) -> Fence:
    """Flags become the same document a file would hold, and go through the same checks."""
    from vgpumgr.spec import COMMAND_LINE, load

    document = {
        "apiVersion": API_VERSION,
        "kind": "Host",
        "name": record.name,
        "address": record.address,
        "fence": {key: _list(key, options[key]) for key in ("off", "status")},
    }
    [loaded] = load(json.dumps(document, ensure_ascii=False).encode(), COMMAND_LINE).hosts
    assert loaded.fence is not None, "it was given"
    return loaded.fence


def _list(key: str, text: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        example = f'--{key} \'["/usr/bin/program", "argument"]\''
        raise UsageError(f"--{key} is not a JSON list: {error}", next=example) from error
