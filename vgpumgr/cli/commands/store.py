"""The commands on the ledger: store backup, restore, thaw, check and migrate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.output import (
    Column,
    fields,
    list_options,
    output_option,
    print_item,
    print_list,
    say,
)
from vgpumgr.cli.terminal import confirm
from vgpumgr.cli.views.ages import age
from vgpumgr.model.errors import LedgerError, UsageError
from vgpumgr.model.formats import counted
from vgpumgr.model.ledger_state import Backup, BackupFacts, LedgerCheck, LedgerMoved, LedgerRestored

if TYPE_CHECKING:
    from vgpumgr.engine.ledger_recovery.ledger_thaw import ThawReport


Item = dict[str, Any]


def backup_item(made: Backup) -> Item:
    """A backup."""
    return {"name": str(made.path), "sha256": made.sha256, "rows": made.rows}


def backup_text(made: Backup) -> str:
    """A backup as one line."""
    return f"backed up to {made.path}: {made.rows} rows, SHA-256 in {made.path.name}.sha256"


def restore_question(facts: BackupFacts) -> str:
    """What is about to be lost."""
    last = f"its newest operation began {age(facts.last)} ago" if facts.last else "it is empty"
    sum_ = "" if facts.summed else "; there is no .sha256 beside it"
    return (
        f"replace the ledger by this backup of fleet {facts.fleet} ({last}{sum_})? "
        "Changes since then are known to the hosts alone, and nothing is allocated until "
        "vgpumgr store thaw"
    )


def restored_item(done: LedgerRestored) -> Item:
    """What came back."""
    kept = str(done.kept) if done.kept else None
    return {"name": "ledger", "rows": done.rows, "epoch": done.epoch, "kept": kept}


def restored_text(done: LedgerRestored) -> str:
    """What came back, and what to do now."""
    kept = f"; what it replaced is kept in {done.kept}" if done.kept else ""
    return (
        f"restored {done.rows} rows, epoch {done.epoch}{kept}\n"
        "the ledger is frozen: see vgpumgr drift, then vgpumgr store thaw"
    )


def moved_item(done: LedgerMoved) -> Item:
    """A ledger that lies elsewhere now."""
    return {"name": done.target, "from": done.source, "rows": done.rows, "epoch": done.epoch}


def moved_text(done: LedgerMoved) -> str:
    """Where it lies, and what to do now."""
    return (
        f"{done.rows} rows copied and read back, epoch {done.epoch}; {done.source} stays, frozen\n"
        f"now set ledger: {done.target} on every machine that used it"
    )


def check_item(found: LedgerCheck) -> Item:
    """The whole finding."""
    return {
        "name": found.where,
        "schema": found.schema,
        "fleet": found.fleet,
        "epoch": found.epoch,
        "frozen": found.frozen.why if found.frozen else None,
        "open_operations": found.open_operations,
        "problems": [
            {"what": each.what, "why": each.why, "next": each.next} for each in found.problems
        ],
    }


def check_text(found: LedgerCheck) -> str:
    """The finding, each problem with the way out."""
    head = fields(
        [
            ("Ledger", found.where),
            ("Fleet", found.fleet),
            ("Schema", found.schema),
            ("Epoch", found.epoch),
            ("Frozen", found.frozen.why if found.frozen else ""),
            ("Open operations", found.open_operations),
        ]
    )
    lines = [f"{each.what}: {each.why}\n  {each.next}" for each in found.problems]
    return "\n".join([head, *(lines or ["no problem found"])])


COLUMNS = (
    Column("HOST", "host"),
    Column("VM", "vm"),
    Column("KNOWS", "text"),
    Column("CONFLICT", "conflict"),
)


@click.command()
@click.option("--apply", "apply_", is_flag=True, help="Record it and lift the freeze.")
@click.option(
    "--without", multiple=True, metavar="HOST", help="Leave this host out; it is cordoned."
)
@click.option(
    "--forget",
    multiple=True,
    metavar="VM",
    help="This VM was deleted: no host shows any trace of it.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@list_options
@pass_context
def thaw(
    context: Context, apply_: bool, without: tuple[str, ...], forget: tuple[str, ...], yes: bool
) -> None:
    """Bring a ledger that was rolled back up to date with its hosts.

    Probes every host and shows what the ledger lacks. With --apply VMs and allocations are recorded
    as found on the hosts, nothing is closed, and the ledger allocates again in a new epoch.
    """
    context.app.require_hosts()
    engine = context.app.engine
    if not apply_:
        _show(engine.thaw_plan(without=without, forget=forget), without)
        return
    confirm(yes=yes)("Record what the hosts know, and allocate again?")
    done = engine.thaw(without=without, forget=forget)
    _print(done)
    say(f"the ledger allocates again, in epoch {engine.ledger.epoch()}")


def _show(found: ThawReport, without: tuple[str, ...]) -> None:
    _print(found)
    for host, why in found.missing.items():
        say(f"{host} did not report its state: {why}")
    if found.frozen is None:
        say("the ledger is not frozen")
        return
    if found.conflicts:
        say(f"{counted(len(found.conflicts), 'conflict')} must be settled first")
    silent = [host for host in found.missing if host not in without]
    flags = "".join(f" --without {host}" for host in (*without, *silent))
    say(f"next: vgpumgr store thaw --apply{flags}")
    if not flags:
        say("      to leave out a host that cannot be trusted: --without HOST; it is cordoned then")


def _print(found: ThawReport) -> None:
    items = [
        {
            "name": f"{line.host}/{line.vm}",
            "host": line.host,
            "vm": line.vm,
            "text": line.text,
            "conflict": line.conflict,
        }
        for line in found.lines
    ]
    print_list("Thaw", items, COLUMNS)


@click.group()
def store() -> None:
    """The ledger: backup, restore, thaw, check, migrate."""


@store.command()
@click.argument("file", type=click.Path(path_type=Path))
@output_option
@pass_context
def backup(context: Context, file: Path) -> None:
    """Write the ledger as it is now to FILE, and its SHA-256 to FILE.sha256.

    A backup is a ledger file, whichever database keeps the ledger: vgpumgr --ledger FILE reads it.
    Values of secrets are not in it.
    """
    from vgpumgr.app import ledger_admin

    made = ledger_admin.back_up(context.config, file)
    print_item("Backup", backup_item(made), backup_text(made))
    if left := len(context.app.secrets.names()):
        say(f"{counted(left, 'secret')} left out: copy {context.config.state_dir}/secrets yourself")


@store.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_option
@pass_context
def restore(context: Context, file: Path, yes: bool) -> None:
    """Replace the ledger by the backup FILE; the old ledger is kept.

    The restored ledger is frozen: the hosts may have changed since.
    """
    from vgpumgr.app import ledger_admin

    ask = confirm(yes=yes)
    done = ledger_admin.restore(context.config, file, lambda facts: ask(restore_question(facts)))
    print_item("Restored", restored_item(done), restored_text(done))


@store.command()
@output_option
@pass_context
def check(context: Context) -> None:
    """List every inconsistency of the ledger; exit 1 if there is any."""
    from vgpumgr.app import ledger_admin

    found = ledger_admin.check(context.config)
    print_item("Check", check_item(found), check_text(found))
    if found.problems:
        raise LedgerError(f"{counted(len(found.problems), 'problem')} in the ledger")


@store.command()
@click.argument("addresses", nargs=-1, metavar="[FROM TO]")
@output_option
@pass_context
def migrate(context: Context, addresses: tuple[str, ...]) -> None:
    """Migrate a ledger to the current schema, or move one FROM a place TO
    another: a file's path, or postgresql://USER@HOST/DATABASE.

    A ledger file is backed up beside itself first. Commands that change something migrate, too. A
    moved ledger is copied whole and verified; the old one stays, frozen.
    """
    match addresses:
        case ():
            _migrate_schema(context)
        case (source, target):
            from vgpumgr.app import ledger_admin

            moved = ledger_admin.move(source, target)
            print_item("Moved", moved_item(moved), moved_text(moved))
        case _:
            raise UsageError("store migrate takes no address, or two", next="store migrate FROM TO")


def _migrate_schema(context: Context) -> None:
    done = context.app.migrate_ledger()
    item = {
        "name": "ledger",
        "before": done.before,
        "after": done.after,
        "backup": str(done.backup) if done.backup else None,
    }
    text = f"schema {done.before} → {done.after}" + (f", backup: {done.backup}" * bool(done.backup))
    print_item("Migration", item, text if done.before != done.after else "nothing to migrate")


store.add_command(thaw)
