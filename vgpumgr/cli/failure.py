"""Errors as the program ends with them: what happened, why, what to type next, the exit code."""

from __future__ import annotations

import errno
import io
import sys
import traceback
from itertools import pairwise

import click

from vgpumgr.cli import terminal
from vgpumgr.cli.terminal import echo, echo_json, style
from vgpumgr.model.errors import Interrupted, UsageError, VgpumgrError


def report(error: BaseException, *, debug: bool, as_json: bool) -> int:
    """Print the error on stderr and give the exit code."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if debug:
        echo("".join(traceback.format_exception(error)), err=True, nl=False)
    if isinstance(error, click.ClickException):
        return _usage(error, as_json=as_json)
    known = _as_known(error)
    if as_json:
        echo_json(known.as_dict(), err=True)
    else:
        _print(known)
    return known.exit_status


def _usage(error: click.ClickException, *, as_json: bool) -> int:
    if as_json:
        context = error.ctx if isinstance(error, click.UsageError) else None
        command = context.command_path if context else "vgpumgr"
        known = UsageError(error.format_message(), next=f"{command} --help")
        echo_json(known.as_dict(), err=True)
        return known.exit_status
    shown_by_click = io.StringIO()
    error.show(shown_by_click)
    echo(shown_by_click.getvalue(), err=True, nl=False)
    return error.exit_code


def _as_known(error: BaseException) -> VgpumgrError:
    if isinstance(error, VgpumgrError):
        return error
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return Interrupted("interrupted")
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return VgpumgrError("nothing more could be written", why=error.strerror or "", next="df -h")
    return VgpumgrError(
        f"an unexpected {type(error).__name__}: {error}",
        why="this is a bug in vgpumgr",
        next="run the command again with --debug and report what it prints",
    )


def _print(error: VgpumgrError) -> None:
    """Line ends in what a host said stand set in: nothing below is taken for a line of ours."""
    red = style("error:", fg="red", bold=True)
    limit = terminal.width(sys.stderr)
    message = terminal.fitted(f"error: {_set_in(error.message)}", limit).removeprefix("error:")
    echo(f"{red}{message}", err=True)
    if error.why:
        parts = error.why.split("; ") if len(error.why) > 90 else [error.why]
        for number, line in enumerate(parts):
            shown = f"  {'why: ' if number == 0 else '     '}{_set_in(line)}"
            echo(terminal.fitted(shown, limit), err=True)
    if error.next:
        echo(f"  next: {_set_in(error.next)}", err=True)


def _set_in(text: str) -> str:
    return text.replace("\n", "\n       ")


def wants_json(argv: list[str]) -> bool:
    """Did the user ask for JSON? Errors follow the output's format."""
    pairs = pairwise(argv)
    return (
        "-ojson" in argv
        or "--output=json" in argv
        or any(flag in {"-o", "--output"} and value == "json" for flag, value in pairs)
    )
