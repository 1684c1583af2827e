"""The root command. Commands are imported when they are called: ``--help`` loads none."""

from __future__ import annotations

import gc
import os
import sys
from typing import Any

import click

from vgpumgr import __version__
from vgpumgr.cli.command_context import Context
from vgpumgr.cli.late_group import imported
from vgpumgr.cli.output import AFTER_LISTS

# name → (file of commands/:function, one line of help)
COMMANDS: dict[str, tuple[str, str]] = {
    "apply": ("apply:apply", "Make hosts, GPUs, VMs and pools as a YAML file says."),
    "plan": ("apply:plan", "Show what apply would do."),
    "diff": ("apply:diff", "Exit 10 when apply would change something."),
    "drift": ("drift:drift", "List every difference between the ledger and the hosts."),
    "heal": ("heal:heal", "Repair what drift lists, as far as vgpumgr owns it."),
    "adopt": (
        "adopt:adopt",
        "Bring existing domains and partitioning under management, unchanged.",
    ),
    "takeover": (
        "takeover:takeover",
        "VMs of other managers, brought into the fleet: plan, apply.",
    ),
    "delete": ("apply:delete", "Delete the VMs and pools that a YAML file names."),
    "explain": ("explain:explain", "Show where a request fits, or why it fits nowhere."),
    "simulate": ("simulate:simulate", "Simulate added or lost hosts, VMs and requests."),
    "capacity": ("capacity:capacity", "What still fits, per profile."),
    "map": ("map:map_", "Draw every GPU's occupancy."),
    "metrics": ("metrics:metrics", "Series for Prometheus: show, rules, dashboards."),
    "top": ("top:top", "Show what GPUs and VMs measure now."),
    "host": ("host:host", "Hosts: add, list, show, probe, trust, cordon, remove."),
    "gpu": ("gpu:gpu", "GPUs: list, show, cordon, reset."),
    "layout": (
        "layout:layout",
        "Partitioning of GPUs: plan, apply, assert, export, import, show.",
    ),
    "vm": ("vm:vm", "VMs: create, list, show, xml, start, stop, reboot, migrate, delete."),
    "guest-profile": (
        "guest_profile:guest_profile",
        "Software for guests, with checks: list, show.",
    ),
    "flavour": ("flavour:flavour", "Sizes of VMs by name: list, show, delete."),
    "backup": ("backup:backup", "Backups of VMs: create, list, verify, restore, delete, target."),
    "image": ("image:image", "Disk images in versions: import, list, show, retire."),
    "health": ("health:health", "Health of GPUs: evaluate."),
    "balance": ("balance:balance", "Move VMs from hot hosts to cooler ones: plan, run."),
    "defrag": ("defrag:defrag", "Make room by moving VMs: plan, apply."),
    "allocation": ("allocation:allocation", "What VMs hold of which GPU."),
    "pool": (
        "pool:pool",
        "Pools of desktops: list, show, assign, release, push-image, scale, drain, delete, …",
    ),
    "booking": ("booking:booking", "Desktops reserved for a group: create, list, delete."),
    "queue": ("queue:queue", "VMs that wait for capacity: list, show, cancel, explain."),
    "quota": ("quota:quota", "What tenants may hold: list, set, delete."),
    "licence": ("licence:licence", "Licence seats of guests' vGPU drivers: list, set, delete."),
    "report": ("report:report", "GPU time and what it cost: usage, cost, focus."),
    "power": ("power:power", "Power budgets: list, show, apply, remove."),
    "price": ("price:price", "What an hour of a GPU costs: list, apply, remove."),
    "operation": ("operation:operation", "Operations: list, show, resume, undo."),
    "serve": ("serve:serve", "Run the controller: reconcile hosts and ledger until stopped."),
    "api": ("api:api", "Serve the HTTP API: a route for every command."),
    "login": ("login:login", "Log in at a server, in a browser."),
    "logout": ("login:logout", "End the session at a server."),
    "context": ("context:context", "Servers to work at: add, list, use, remove."),
    "role": ("role:role", "Who holds which role in which tenant: list, grant, revoke."),
    "token": ("token:token", "API tokens: list, create, revoke."),
    "secret": ("secret:secret", "Passwords and keys by name: set, list, show, remove."),
    "webhook": (
        "webhook:webhook",
        "Records of the trail, sent as they are written: add, list, show, …",
    ),
    "notification": (
        "notification:notification",
        "Mail of what matters: apply, list, show, test, resume, remove.",
    ),
    "calendar": ("calendar:calendar", "Holidays by name: apply, list, remove."),
    "auth": ("auth:auth", "Access: roles, whoami, test, session."),
    "audit": ("audit:audit", "Audit trail of every change: list, verify, export, …"),
    "store": ("store:store", "The ledger: backup, restore, thaw, check, migrate."),
    "doctor": (
        "doctor:doctor",
        "Check this machine, the ledger and every host, or one host closely.",
    ),
    "sim": ("sim:sim", "The simulated fleet: up, down, status, inject."),
    "schema": ("schema:schema", "JSON Schema of the YAML documents."),
    "completion": ("completion:completion", "Shell completion script."),
}

# The headings of --help: every command stands below one of them, in this order.
SECTIONS: dict[str, tuple[str, ...]] = {
    "VMs": (
        "apply",
        "plan",
        "diff",
        "delete",
        "vm",
        "flavour",
        "guest-profile",
        "image",
        "backup",
        "queue",
        "quota",
        "licence",
        "explain",
    ),
    "Desktops": ("pool", "booking"),
    "GPUs and layouts": (
        *("gpu", "layout", "map", "top", "metrics"),
        *("capacity", "allocation", "defrag", "balance", "simulate", "power"),
    ),
    "Hosts": ("host", "doctor"),
    "Fleet care": ("serve", "api", "drift", "health", "heal", "adopt", "takeover", "operation"),
    "Showback": ("report", "price"),
    "Access": ("context", "login", "logout", "role", "token", "secret", "auth", "webhook"),
    "Notifications": ("notification", "calendar"),
    "Ledger and settings": ("store", "audit", "schema", "completion", "sim"),
}


_GARBAGE_EVERY = 100_000
"""Values made before Python looks for garbage: a command ends before cycles of it add up, and a
look for every 700 costs a fifth of reading a ledger."""


class LazyGroup(click.Group):
    """A group whose commands live in modules that are imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of --help."""
        return [name for names in SECTIONS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        return imported(COMMANDS[cmd_name][0])

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands under their headings, from the tables alone."""
        widest = max(map(len, COMMANDS))
        for heading, names in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([(f"{name:<{widest}}", COMMANDS[name][1]) for name in names])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Unknown commands get a suggestion."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in COMMANDS:
            import difflib

            near = difflib.get_close_matches(name, COMMANDS, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise click.UsageError(f"No such command {name!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="vgpumgr")
@click.option("--state-dir", metavar="DIR", help="Folder of the ledger and the simulated fleet.")
@click.option("--ledger", metavar="FILE|URL", help="Ledger to use: a file or a PostgreSQL URL.")
@click.option(
    "--server",
    metavar="URL",
    help="Work at a server: https://HOST[:PORT], unix:PATH, or a context.",
)
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
@click.pass_context
def root(ctx: click.Context, state_dir: str | None, ledger: str | None, server: str | None) -> None:
    """GPUs for KVM virtual machines: passthrough, vGPU and MIG across a fleet of hosts.

    \b
    vgpumgr host add gpu1 --address root@10.0.0.11     enrol a host
    vgpumgr apply -f desktops.yaml                     make the VMs run where they fit
    vgpumgr map                                        see every GPU's occupancy
    """
    ctx.color = False if os.environ.get("NO_COLOR") else None
    overrides = {"state_dir": state_dir, "ledger": ledger}
    ctx.obj = Context({key: value for key, value in overrides.items() if value}, server or "")
    ctx.meta[AFTER_LISTS] = ctx.obj.warn_after_list
    ctx.call_on_close(ctx.obj.close)


def run() -> None:
    """Run the program and end the process with the exit code of design."""
    gc.set_threshold(_GARBAGE_EVERY)
    from vgpumgr.cli.failure import report, wants_json
    from vgpumgr.cli.running_command import ending_at_once

    with ending_at_once():
        try:
            code = root.main(standalone_mode=False, prog_name="vgpumgr")
        except SystemExit:  # click itself ends a completion, and a run whose reader went away
            raise
        except BaseException as error:
            code = report(error, debug="--debug" in sys.argv, as_json=wants_json(sys.argv))
    gc.freeze()  # the process gives back all at once: the interpreter need not look for garbage
    sys.exit(code if isinstance(code, int) else 0)
