"""The commands on the trail's seal: audit seal, verify, checkpoint and export."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.output import output_option, print_item, say
from vgpumgr.cli.terminal import echo, json_text
from vgpumgr.cli.views.ages import age
from vgpumgr.model.errors import NotFound, TrailTampered, UsageError
from vgpumgr.model.formats import counted

if TYPE_CHECKING:
    from vgpumgr.model.ledger import Ledger
    from vgpumgr.model.sealed_trail import KeptNote, TrailVerdict

_AT_ONCE = 1000
_MAX_BYTES = 64 * 1024


@click.command()
@output_option
@pass_context
def seal(context: Context) -> None:
    """Seal what is not sealed yet; `serve` does so every second."""
    from vgpumgr.app.trail_sealer import seal_now

    head = seal_now(context.app.writable_ledger, context.config.keys_dir)
    said = f"{counted(head.size, 'record')} sealed now" if head else "every record was sealed"
    print_item("Seal", {"name": "trail", "sealed": head.size if head else None}, said)


@click.command()
@click.option("--public-key", is_flag=True, help="Print the public key to check it with instead.")
@click.option("--pem", is_flag=True, help="With --public-key: in PEM, for other programs.")
@pass_context
def checkpoint(context: Context, *, public_key: bool, pem: bool) -> None:
    """Print the newest signed checkpoint: a note to keep on another machine."""
    ledger = context.app.ledger
    if not (public_key or pem):
        note = ledger.newest_note()
        if not note:
            raise NotFound("nothing is sealed yet", next="vgpumgr audit seal")
        echo(note.removesuffix("\n"))
        return
    from vgpumgr.app.trail_key import trail_key
    from vgpumgr.audit.signed_note import verifier_key

    key = trail_key(context.config.keys_dir)
    echo(key.public_pem().strip() if pem else verifier_key(ledger.trail_origin(), key.public))


@click.command()
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="KEY",
    help="A public key, or the file of one, as `audit checkpoint --public-key` printed it; may be "
    "given more than once. Without: this controller's own.",
)
@click.option(
    "--checkpoint",
    "files",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="A checkpoint that was kept elsewhere; may be given more than once.",
)
@output_option
@pass_context
def verify(context: Context, keys: tuple[str, ...], files: tuple[Path, ...]) -> None:
    """Check every sealed record against its hash, and all of them against signed checkpoints.

    The checkpoint that the controller keeps next to its key is compared, too. Exit 1 where
    anything is not as it was sealed.
    """
    from vgpumgr.audit.signed_note import open_note

    trusted = _keys(context, keys)
    kept = _kept(context, files, named=bool(keys))
    verdict = context.app.ledger.check_trail(lambda note: open_note(note, trusted), kept)
    print_item("TrailVerdict", _item(verdict), _text(verdict))
    if verdict.wrong:
        more = len(verdict.wrong) - 1
        raise TrailTampered(
            f"the audit trail is not what was sealed: {verdict.wrong[0]}",
            why=f"{counted(more, 'more finding')} above" if more else "",
            next="keep the ledger as it is and compare with a backup: vgpumgr store backup FILE",
        )


def _keys(context: Context, given: tuple[str, ...]) -> tuple[bytes, ...]:
    from vgpumgr.app.trail_key import trail_key
    from vgpumgr.audit.signed_note import public_key

    if not given:
        return (trail_key(context.config.keys_dir).public,)
    return tuple(
        public_key(_read(Path(each)) if "+" not in each or Path(each).is_file() else each)
        for each in given
    )


def _kept(context: Context, files: tuple[Path, ...], *, named: bool) -> list[KeptNote]:
    """Those of the files, and the one that this controller keeps."""
    from vgpumgr.app.trail_sealer import kept_note
    from vgpumgr.model.sealed_trail import KeptNote

    notes = [KeptNote(f"the checkpoint in {path}", _read(path)) for path in files]
    path, own = kept_note(context.config.keys_dir)
    return [*notes, KeptNote(f"the checkpoint in {path}", own)] if own and not named else notes


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read", why=str(error)) from error


def _item(verdict: TrailVerdict) -> dict[str, object]:
    return {
        "name": "trail",
        "sealed": verdict.sealed,
        "checkpoints": verdict.checkpoints,
        "unsealed": verdict.unsealed,
        "unsealed_since": verdict.unsealed_since,
        "wrong": list(verdict.wrong),
    }


def _text(verdict: TrailVerdict) -> str:
    compared = counted(verdict.checkpoints, "signed checkpoint")
    lines = [f"{counted(verdict.sealed, 'record')} sealed, compared with {compared}"]
    if verdict.unsealed_since is not None:
        oldest = f"the oldest is {age(verdict.unsealed_since)} old"
        lines.append(f"{counted(verdict.unsealed, 'record')} not sealed yet: {oldest}")
    return "\n".join([*lines, *verdict.wrong])


@click.command()
@click.option(
    "--since",
    type=click.IntRange(min=0),
    metavar="SEQ",
    help="Only records after this number (event.sequence).",
)
@click.option(
    "--cursor",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Go on after the record that this file names, and write the last one into it.",
)
@click.option(
    "-o",
    "form",
    type=click.Choice(["jsonl"]),
    expose_value=False,
    default="jsonl",
    show_default=True,
    help="Output format: one ECS event of JSON a line.",
)
@pass_context
def export(context: Context, since: int | None, cursor: Path | None) -> None:
    """Print sealed records, the oldest first, as ECS events with sequence and hash."""
    if since is not None and cursor is not None:
        raise UsageError("--since and --cursor cannot be given together")
    ledger = context.app.ledger
    origin = ledger.trail_origin()
    after = _cursor(cursor, origin) if cursor else since or 0
    last = _export(ledger, after)
    if cursor is not None and last != after:
        _keep_cursor(cursor, f"{origin} {last}\n")


def _export(ledger: Ledger, after: int) -> int:
    """The number of the last record that was printed, or ``after``."""
    from vgpumgr.audit.ecs_record import ecs_event

    while found := ledger.sealed_records(after, _AT_ONCE):
        echo("".join(f"{json_text(ecs_event(each), compact=True)}\n" for each in found), nl=False)
        after = found[-1].record.seq
    sys.stdout.flush()
    return after


def _cursor(path: Path, origin: str) -> int:
    """Where to go on; from the beginning in a ledger that was restored since."""
    if not path.exists():
        return 0
    was, _, number = _read(path).strip().partition(" ")
    if not (number.isascii() and number.isdigit() and len(number) < 20):
        raise UsageError(f"{path} is not a cursor of `audit export`", next=f"rm {path}")
    if was == origin:
        return int(number)
    say(f"the ledger is not the one of {path} ({was}, now {origin}): all of it is exported again")
    return 0


def _keep_cursor(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        draft.write_text(text)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise UsageError(f"{path} cannot be written", why=str(error)) from error
