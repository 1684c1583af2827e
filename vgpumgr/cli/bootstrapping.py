"""``host add --bootstrap``: progress line by line on stderr, and how it ends."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from vgpumgr.cli.bootstrap_options import given_variables
from vgpumgr.cli.context import Context
from vgpumgr.cli.interrupts import ending_gently
from vgpumgr.cli.output import chosen_format, print_item, say
from vgpumgr.cli.terminal import CLEAR_LINE, echo, one_line
from vgpumgr.cli.views.findings import print_findings
from vgpumgr.model.errors import PartlyDone, VgpumgrError
from vgpumgr.model.host import HostRecord
from vgpumgr.model.words import counted

if TYPE_CHECKING:
    from vgpumgr.app.bootstrap import Event, Result


CHANGES_PENDING = 10


def bootstrap(
    context: Context,
    records: Sequence[HostRecord],
    options: Mapping[str, Any],
    accept: Callable[[str, str], None],
) -> None:
    """Set hosts up and enrol them; with ``--check`` show what would change and exit 10 if any."""
    from vgpumgr.app.bootstrap import Wish, set_up

    wish = Wish(
        check=options["check"],
        keep_user=options["keep_user"],
        variables=given_variables(options["extra_vars"], options["set_vars"]),
    )
    with ending_gently(context.app.stop), _Progress(wish.check) as progress:
        results = set_up(
            context.app,
            records,
            wish,
            fingerprint=options["fingerprint"] or "",
            accept=accept,
            seen=progress.see,
        )
    _raise_the_only(results)
    if wish.check:
        _print_changes(results)
    else:
        _print_enrolled(context, results)
    _end(results, check=wish.check)


class _Progress:
    """A line for what changed or failed; at a terminal, what is being done, too.

    A dry run's changes are its result, not its progress.
    """

    def __init__(self, check: bool) -> None:
        self._told = {"failed", "unreachable"} if check else {"failed", "unreachable", "changed"}
        self._quiet = chosen_format().name == "json"
        self._live = sys.stderr.isatty() and not self._quiet

    def see(self, event: Event) -> None:
        """Told of every event as it happens."""
        from vgpumgr.app.bootstrap import Outcome, where

        if event.outcome is Outcome.STARTED:
            self._show(f"… {where(event)}")
        elif event.outcome in self._told and not self._quiet:
            self._show("")
            echo(f"{event.host}  {where(event)}: {event.outcome}", err=True)

    def _show(self, text: str) -> None:
        if self._live:
            echo(f"{CLEAR_LINE}{one_line(text)[:78]}", nl=False, err=True)

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *failure: object) -> None:
        self._show("")


def _raise_the_only(results: Mapping[str, Result]) -> None:
    """The error of the one host that was asked for is the command's."""
    errors = [each.error for each in results.values() if each.error is not None]
    if errors and len(results) == 1:
        raise errors[0]


def _print_changes(results: Mapping[str, Result]) -> None:
    from vgpumgr.app.bootstrap import where

    items = [
        {
            "host": name,
            "role": event.role,
            "task": event.task,
            "message": event.message,
            "diff": event.diff,
        }
        for name, result in results.items()
        if result.end is not None
        for event in result.end.changed
    ]
    text = "\n".join(
        f"{event.host}  {where(event)}" + "".join(f"\n    {line}" for line in _detail(event))
        for result in results.values()
        if result.end is not None
        for event in result.end.changed
    )
    print_item("SetupPlan", {"name": "host-setup", "changes": items}, text or "nothing to change")


def _detail(event: Event) -> list[str]:
    shown = event.diff or (event.message if event.message.startswith("would ") else "")
    return [line for line in shown.splitlines() if line.strip()]


def _print_enrolled(context: Context, results: Mapping[str, Result]) -> None:
    from vgpumgr.app.diagnosis import examine_host

    for name, result in sorted(results.items()):
        if result.record is not None and result.end is not None:
            done = counted(len(result.end.changed), "change")
            say(f"{name}: {done}; enrolled as {result.record.address}")
            if result.end.reboot_due:
                say(f"{name}: needs a reboot{_because_of(result.end.guests)}")
    if len(results) == 1:
        only = next(iter(results))
        print_findings(only, examine_host(context.app, only))


def _because_of(guests: Sequence[str]) -> str:
    return f", which waits for its running guests: {', '.join(guests)}" if guests else ""


def _end(results: Mapping[str, Result], *, check: bool) -> None:
    """Exit 7 when a host failed or waits for a reboot, 10 when a dry run found changes."""
    failed = {name: each.error for name, each in results.items() if each.error is not None}
    for name, error in sorted(failed.items()):
        say(f"{name}: {_told(error)}")
    waiting = [name for name, each in results.items() if each.end and each.end.reboot_due]
    if failed:
        raise PartlyDone(
            f"{len(failed)} of {len(results)} hosts could not be set up",
            next="the same command resumes where it stopped",
        )
    if waiting:
        raise PartlyDone(
            f"{', '.join(waiting)}: set up, but not rebooted",
            next="reboot when nothing runs there, then: vgpumgr doctor HOST",
        )
    if check and any(each.end and each.end.changed for each in results.values()):
        raise click.exceptions.Exit(CHANGES_PENDING)


def _told(error: VgpumgrError) -> str:
    return f"{error.message}{f' ({error.why})' if error.why else ''}"
