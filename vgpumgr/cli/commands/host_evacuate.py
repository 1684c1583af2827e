"""The commands `host fence` and `evacuate`: a failed host proven off, its VMs recreated."""

from __future__ import annotations

import json
from typing import Any

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.commands.completion import completed
from vgpumgr.cli.output import output_option, print_item, say
from vgpumgr.cli.running_command import carry_out, finish
from vgpumgr.cli.terminal import at_a_terminal, confirm, typed
from vgpumgr.cli.views.host_views import evacuation_text
from vgpumgr.endpoints import host_evacuations, hosts
from vgpumgr.model.errors import UsageError
from vgpumgr.model.formats import counted
from vgpumgr.model.host import Fence

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
    host = context.read(hosts.SHOW_HOST, hosts.OneHost(name=name)).answer
    word = confirm_off is not None
    if dry_run:
        preview = host_evacuations.EvacuationPreview(name=name, will_not_boot=word)
        plan = context.read(host_evacuations.PLAN_EVACUATION, preview)
        print_item("Evacuation", plan.answer, evacuation_text(plan.answer))
        finish(plan)
        return
    there = context.read(host_evacuations.VMS_ON_HOST, hosts.OneHost(name=name)).answer["vms"]
    if confirm_off is not None:
        _require_typed(name, confirm_off)
    elif host["fence"] is not None:
        vms = counted(len(there), "VM")
        confirm(yes=yes)(f"switch {name} off and recreate its {vms} elsewhere?")
    asked = host_evacuations.EvacuateHost(name=name, confirm_off=name if word else None)
    done = carry_out(context, host_evacuations.EVACUATE_HOST, asked)
    print_item("Evacuation", done.answer, evacuation_text(done.answer))
    finish(done)


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


@click.command()
@click.argument("name", shell_complete=completed("hosts"))
@click.option("--off", metavar="JSON", help="JSON list: the command that switches the host off.")
@click.option(
    "--status", metavar="JSON", help="JSON list: the command that reports whether the host is off."
)
@click.option(
    "--secret",
    metavar="NAME",
    help="Secret of the fleet whose path stands for {secret} in the arguments.",
    shell_complete=completed("secrets"),
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
      --off    '["/usr/bin/ipmitool","-H","bmc2","-U","adm","-f","{secret}","power","off"]' \\
      --status '["/usr/bin/ipmitool","-H","bmc2","-U","adm","-f","{secret}","power","status"]' \\
      --secret bmc-2

    Passwords belong into a secret (vgpumgr secret set), whose file the program reads. libvirt on a
    host with such a block starts no VM by itself: `vm start` and `serve` do.
    """
    host = hosts.OneHost(name=name)
    context.read(hosts.SHOW_HOST, host)
    _require_one(name, options)
    if options["check"]:
        found = context.act(host_evacuations.CHECK_FENCE, host).answer
        say(f"{name}: status says {found['says']}: {'off' if found['off'] else 'not off'}")
        return
    if options["remove"]:
        done = carry_out(context, host_evacuations.REMOVE_FENCE, host)
    else:
        done = carry_out(context, host_evacuations.SET_FENCE, _wanted(context, name, options))
    block = done.answer["fence"]
    say(f"{name}: {'has no fence block' if block is None else 'is fenced with ' + block['off'][0]}")
    finish(done)


def _require_one(name: str, options: dict[str, Any]) -> None:
    flags = bool(options["off"] or options["status"])
    if flags + sum(bool(options[key]) for key in ("file", "check", "remove")) != 1:
        raise UsageError(
            "one of: --off with --status, -f, --check, --remove",
            next=f"vgpumgr host fence {name} --off '[…]' --status '[…]'",
        )
    if flags and not (options["off"] and options["status"]):
        raise UsageError("--off and --status belong together", next="both, each a JSON list")
    if options["secret"] and not flags:
        raise UsageError("--secret belongs to --off and --status", next="or to the file's block")


def _wanted(context: Context, name: str, options: dict[str, Any]) -> host_evacuations.NewFence:
    if options["file"]:
        return _from_file(context, name, options["file"])
    block = {key: _list(key, options[key]) for key in ("off", "status")}
    block |= {"secret": options["secret"]} if options["secret"] else {}
    return _new_fence(name, hosts.host_from(name=name, address="local", fence=block).fence)


def _from_file(context: Context, name: str, file: str) -> host_evacuations.NewFence:
    from vgpumgr.cli.user_files import load_documents

    found = [host for host in load_documents(context, file).hosts if host.name == name]
    if not found or found[0].fence is None:
        raise UsageError(
            f"{file} has no fence block for {name}",
            next=f"a document with kind: Host, name: {name}, fence: {{off: […], status: […]}}",
        )
    return _new_fence(name, found[0].fence)


def _new_fence(name: str, fence: Fence | None) -> host_evacuations.NewFence:
    assert fence is not None, "it was given"
    return host_evacuations.NewFence(
        name=name, off=fence.off, status=fence.status, secret=fence.secret or None
    )


def _list(key: str, text: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        example = f'--{key} \'["/usr/bin/program", "argument"]\''
        raise UsageError(f"--{key} is not a JSON list: {error}", next=example) from error
