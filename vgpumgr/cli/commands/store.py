"""``vgpumgr store``."""

from __future__ import annotations

from pathlib import Path

import click

from vgpumgr.cli.commands.store_thaw import thaw
from vgpumgr.cli.context import Context, pass_context
from vgpumgr.cli.output import output_option, print_item
from vgpumgr.cli.questions import confirm
from vgpumgr.cli.views import keeping as views
from vgpumgr.model.errors import LedgerError, UsageError
from vgpumgr.model.words import counted


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
    """
    from vgpumgr.app import keeping

    made = keeping.back_up(context.config, file)
    print_item("Backup", views.backup_item(made), views.backup_text(made))


@store.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_option
@pass_context
def restore(context: Context, file: Path, yes: bool) -> None:
    """Replace the ledger by the backup FILE; the old ledger is kept.

    The restored ledger is frozen: the hosts may have changed since.
    """
    from vgpumgr.app import keeping

    ask = confirm(yes=yes)
    done = keeping.restore(context.config, file, lambda facts: ask(views.restore_question(facts)))
    print_item("Restored", views.restored_item(done), views.restored_text(done))


@store.command()
@output_option
@pass_context
def check(context: Context) -> None:
    """List every inconsistency of the ledger; exit 1 if there is any."""
    from vgpumgr.app import keeping

    found = keeping.check(context.config)
    print_item("Check", views.check_item(found), views.check_text(found))
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
            from vgpumgr.app import keeping

            moved = keeping.move(source, target)
            print_item("Moved", views.moved_item(moved), views.moved_text(moved))
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
