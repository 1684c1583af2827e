"""The command `host add`: hosts enrolled from flags or a file, set up first with --bootstrap."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from vgpumgr.cli.command_context import Context, pass_context
from vgpumgr.cli.options import parse_pairs
from vgpumgr.cli.output import chosen_format, output_option, print_item, say
from vgpumgr.cli.running_command import ending_gently
from vgpumgr.cli.terminal import CLEAR_LINE, confirm, echo, one_line
from vgpumgr.cli.user_files import MAX_BYTES
from vgpumgr.cli.views.reports import print_findings
from vgpumgr.endpoints.diagnoses import diagnosis_item
from vgpumgr.endpoints.host_items import probe_summary
from vgpumgr.endpoints.host_membership import ADD_HOST, EnrolledHost, NewHost, host_record
from vgpumgr.model.errors import PartlyDone, UnknownHostKey, UsageError, VgpumgrError
from vgpumgr.model.formats import counted
from vgpumgr.model.host import HostRecord

if TYPE_CHECKING:
    from vgpumgr.app.bootstrap import PlaybookEvent, SetupResult


F = TypeVar("F", bound=Callable[..., Any])
_FLAGS = (
    ("check", "--check"),
    ("keep_user", "--keep-user"),
    ("extra_vars", "--extra-vars"),
    ("set_vars", "-e"),
)


def bootstrap_options(command: F) -> F:
    """Add ``--bootstrap`` and what belongs to it."""
    for option in (
        click.option("-e", "set_vars", multiple=True, metavar="KEY=VALUE", help="One variable."),
        click.option(
            "--extra-vars", metavar="FILE", help="YAML file with variables for the setup."
        ),
        click.option(
            "--keep-user",
            is_flag=True,
            help="Keep using the given user; create no user for vgpumgr.",
        ),
        click.option(
            "--check",
            is_flag=True,
            help="Only show what the setup would change; exit 10 if anything.",
        ),
        click.option(
            "--bootstrap", is_flag=True, help="Set a bare Debian up first (needs Ansible)."
        ),
    ):
        command = option(command)
    return command


def wants_bootstrap(options: Mapping[str, Any]) -> bool:
    """Is the host to be set up? UsageError for flags that do not go together."""
    stray = [flag for name, flag in _FLAGS if options[name]]
    if stray and not options["bootstrap"]:
        raise UsageError(f"{', '.join(stray)}: only with --bootstrap")
    if options["bootstrap"] and options["no_install"]:
        raise UsageError("--bootstrap installs the helper: leave out --no-install")
    return bool(options["bootstrap"])


def given_variables(file: str | None, pairs: Sequence[str]) -> Mapping[str, object]:
    """Those of the file, then those of the command line; values are YAML: ``-e x=true``."""
    import yaml

    from vgpumgr.app.bootstrap import checked

    given = dict(_variables_from_file(file)) if file else {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"-e {pair[:80]} is not KEY=VALUE")
        try:
            given[name] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise UsageError(f"-e {name}: the value is not YAML", why=str(error)) from error
    return checked(given)


def _variables_from_file(file: str) -> Mapping[str, object]:
    import yaml

    try:
        text = Path(file).read_bytes()[: MAX_BYTES + 1]
        found = yaml.safe_load(text) if len(text) <= MAX_BYTES else None
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read", why=str(error)) from error
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise UsageError(f"{file} is not a mapping of variables")
    return found


CHANGES_PENDING = 10


def bootstrap(
    context: Context,
    records: Sequence[HostRecord],
    options: Mapping[str, Any],
    accept: Callable[[str, str], None],
) -> None:
    """Set hosts up and enrol them; with ``--check`` show what would change and exit 10 if any."""
    from vgpumgr.app.bootstrap import SetupRequest, set_up_hosts

    wish = SetupRequest(
        check=options["check"],
        keep_user=options["keep_user"],
        variables=given_variables(options["extra_vars"], options["set_vars"]),
    )
    with ending_gently(context.app.stop), _Progress(wish.check) as progress:
        results = set_up_hosts(
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

    def see(self, event: PlaybookEvent) -> None:
        """Told of every event as it happens."""
        from vgpumgr.app.bootstrap import SetupOutcome, where

        if event.outcome is SetupOutcome.STARTED:
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


def _raise_the_only(results: Mapping[str, SetupResult]) -> None:
    """The error of the one host that was asked for is the command's."""
    errors = [each.error for each in results.values() if each.error is not None]
    if errors and len(results) == 1:
        raise errors[0]


def _print_changes(results: Mapping[str, SetupResult]) -> None:
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


def _detail(event: PlaybookEvent) -> list[str]:
    shown = event.diff or (event.message if event.message.startswith("would ") else "")
    return [line for line in shown.splitlines() if line.strip()]


def _print_enrolled(context: Context, results: Mapping[str, SetupResult]) -> None:
    from vgpumgr.app.diagnosis import examine_host

    for name, result in sorted(results.items()):
        if result.record is not None and result.end is not None:
            done = counted(len(result.end.changed), "change")
            say(f"{name}: {done}; enrolled as {result.record.address}")
            if result.end.reboot_due:
                say(f"{name}: needs a reboot{_because_of(result.end.guests)}")
    if len(results) == 1:
        only = next(iter(results))
        print_findings(only, diagnosis_item(only, examine_host(context.app, only))["items"])


def _because_of(guests: Sequence[str]) -> str:
    return f", which waits for its running guests: {', '.join(guests)}" if guests else ""


def _end(results: Mapping[str, SetupResult], *, check: bool) -> None:
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


@click.command()
@click.argument("name", required=False)
@click.option("--address", help="USER@HOST[:PORT], local, or sim://NAME.")
@click.option(
    "--fingerprint",
    help="Fingerprint of the host's SSH key, SHA256:…; by default the key is shown and confirmed.",
)
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE")
@click.option("--no-install", is_flag=True, help="Do not install the helper: probe only.")
@click.option("--accelerator", type=click.Choice(["auto", "kvm", "tcg"]), default="auto")
@click.option("--layout", type=click.Choice(["declared", "auto"]), default="declared")
@click.option("-f", "--file", "file", help="YAML with Host documents, instead of flags.")
@bootstrap_options
@output_option
@pass_context
def add(context: Context, /, name: str | None, file: str | None, **options: Any) -> None:
    """Enrol hosts: pin the SSH key, install the helper, probe.

    The same command resumes an interrupted run. --bootstrap may be repeated at will.

    \b
    vgpumgr host add gpu1 --address root@gpu1.example --fingerprint SHA256:…
    vgpumgr host add lab --address local
    vgpumgr host add gpu1 --address root@gpu1.example --bootstrap   a bare Debian, set up first
    vgpumgr host add -f hosts.yaml
    """
    if file or wants_bootstrap(options):
        _add_here(context, name, file, options)
        return
    enrolled = _enrolled(context, _new_host(name, options))
    say(f"{enrolled['name']}: {enrolled['summary']}")


def _enrolled(context: Context, asked: NewHost) -> EnrolledHost:
    """The host enrolled; a key that is not known yet is shown, and confirmed or refused."""
    try:
        return context.act(ADD_HOST, asked).answer
    except UnknownHostKey as error:
        _accept_key(asked.name, error.fingerprint)
        return context.act(ADD_HOST, replace(asked, fingerprint=error.fingerprint)).answer


def _add_here(
    context: Context, name: str | None, file: str | None, options: Mapping[str, Any]
) -> None:
    """From a file, or set up first: with this machine's files, Ansible and keys."""
    from vgpumgr.app.enrolment import enrol

    records = _from_file(context, file) if file else [_from_flags(name, options)]
    if wants_bootstrap(options):
        bootstrap(context, records, options, _accept_key)
        return
    for record in records:
        enrolled = enrol(
            context.app,
            record,
            fingerprint=options["fingerprint"] or record.host_key,
            install=not options["no_install"],
            accept=_accept_key,
        )
        say(f"{enrolled.name}: {probe_summary(enrolled)}")


def _from_file(context: Context, file: str) -> list[HostRecord]:
    from vgpumgr.cli.user_files import document_text, load_documents, say_others

    say_others(document_text(file).text, "Host")
    found = list(load_documents(context, file).hosts)
    if not found:
        raise UsageError(f"{file} names no host", next="add a document with kind: Host")
    return found


def _new_host(name: str | None, options: Mapping[str, Any]) -> NewHost:
    if not name or not options["address"]:
        raise UsageError(
            "a host needs a name and an address",
            next="vgpumgr host add NAME --address USER@HOST[:PORT] | local | sim://NAME",
        )
    labels = [f"{key}={value}" for key, value in parse_pairs(options["labels"], "--label")]
    return NewHost(
        name=name,
        address=options["address"],
        fingerprint=options["fingerprint"] or "",
        labels=tuple(labels),
        install=not options["no_install"],
        accelerator=options["accelerator"],
        layout=options["layout"],
    )


def _from_flags(name: str | None, options: Mapping[str, Any]) -> HostRecord:
    return host_record(_new_host(name, options))


def _accept_key(host_name: str, fingerprint: str) -> None:
    """An unknown key is shown and asked for; ``-y`` accepts no unknown key."""
    confirm(yes=False)(f"{host_name} shows the key {fingerprint}. Is that key right?")
