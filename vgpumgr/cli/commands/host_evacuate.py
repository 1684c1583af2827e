"""The commands `host fence` and `evacuate`: a failed host proven off, its VMs recreated."""

from __future__ import annotations

import getpass
import json
import socket
from typing import TYPE_CHECKING, Any

import click

from vgpumgr import API_VERSION
from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.output import output_option, print_item, say
from vgpumgr.cli.running_command import changing
from vgpumgr.cli.terminal import at_a_terminal, confirm, typed
from vgpumgr.cli.views.host_views import evacuation_item, evacuation_text
from vgpumgr.model.errors import PartlyDone, UsageError
from vgpumgr.model.formats import counted
from vgpumgr.model.host import Fence, HostRecord, says_off

if TYPE_CHECKING:
    from vgpumgr.engine.hosts.evacuation_plan import EvacuationPlan


_ASK = "?"


@click.command()
@click.argument("name", shell_complete=completed("hosts"))
@click.option(
    "--confirm-off",
    is_flag=False,
    flag_value=_ASK,
    metavar="[NAME]",
    help="Confirm that it is off and stays off: its name, typed once more.",
)
@click.option("--dry-run", is_flag=True, help="Show what would happen to each VM and stop.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask; this does not confirm that it is off.")
@output_option
@pass_context
def evacuate(
    context: Context, name: str, confirm_off: str | None, dry_run: bool, yes: bool
) -> None:
    """Recreate the VMs of a lost host elsewhere: only those whose disks other hosts see.

    It starts when the host's fence block has switched it off and its status says off, or with
    --confirm-off.
    """
    app = context.app
    record = app.ledger.host(name)
    word = confirm_off is not None
    if dry_run:
        plan = app.engine.evacuation_plan(name, will_not_boot=word)
        print_item("Evacuation", evacuation_item(plan), evacuation_text(plan))
        _refuse(plan)
        return
    total = sum(vm.host == name for vm in app.ledger.vms())
    if confirm_off is not None:
        _require_typed(name, confirm_off)
        app.fences.confirm(name, f"{getpass.getuser()}@{socket.gethostname()}")
    elif record.fence is not None:
        vms = counted(total, "VM")
        confirm(yes=yes)(f"switch {name} off and recreate its {vms} elsewhere?")
    with changing(context, total) as engine:
        plan, outcome = engine.evacuate(name, will_not_boot=word)
    print_item("Evacuation", evacuation_item(plan, outcome), evacuation_text(plan))
    outcome.raise_for_failure()
    _refuse(plan)


def _require_typed(name: str, given: str) -> None:
    """The host's name, typed a second time: ``-y`` is no word for a machine being off."""
    if given == _ASK:
        given = _ask(name)
    if given != name:
        raise UsageError(
            f"{given!r} is not {name}: nothing was changed", next=f"--confirm-off {name}"
        )


def _ask(name: str) -> str:
    if not at_a_terminal():
        raise UsageError(
            f"is {name} off, and does it not boot by itself?",
            why="there is no terminal to confirm at",
            next=f"--confirm-off {name}",
        )
    danger = f"{name} must be off and stay off: a VM that also ran there would corrupt its disks."
    return typed(f"{danger}\nType its name")


def _refuse(plan: EvacuationPlan) -> None:
    staying = [each for each in plan.staying if not each.pool]
    if staying:
        raise PartlyDone(
            f"{counted(len(staying), 'VM')} of {plan.lost.name} cannot be recreated",
            why="; ".join(f"{each.vm.name}: {each.why}" for each in staying[:5]),
            next=staying[0].next,
        )


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
    from vgpumgr.app.fence_programs import words

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
    from vgpumgr.cli.user_files import load_documents

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
