"""One run of a program on a host, over SSH or here."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

# A host of 64 GPUs with 64 VFs and a claim each answers in less than 2 MiB.
MAX_OUTPUT_BYTES = 4 << 20
MAX_ERROR_BYTES = 64 << 10
_LONGEST_WORDS = 1000
# What a JSON text may hold and UTF-8 may not.
SURROGATE = re.compile("[\ud800-\udfff]")


class CallCut(Exception):
    """A program was started and its end was not seen: it may or may not have done its work."""

    def __init__(self, why: str, *, timed_out: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.timed_out = timed_out


@dataclass(frozen=True, slots=True)
class CompletedProgram:
    """A program that ended. ``err`` is the beginning of what it wrote to stderr."""

    status: int
    out: bytes
    err: str


class Runner(Protocol):
    """Runs programs on one host."""

    def run(self, argv: Sequence[str], stdin: bytes, timeout_s: float) -> CompletedProgram:
        """Run one program to its end.

        Raises HostUnreachable when it surely was not started, CallCut when its end was not seen
        or its output was longer than 4 MiB.
        """


class LocalRunner:
    """Programs of this machine; ``prefix`` comes before each of them (``nsenter …``)."""

    def __init__(self, prefix: Sequence[str] = ()) -> None:
        self._prefix = tuple(prefix)

    def run(self, argv: Sequence[str], stdin: bytes, timeout_s: float) -> CompletedProgram:
        """Run one program; a missing one ends with status 127, as a shell would say."""
        try:
            ended = subprocess.run(
                [*self._prefix, *argv],
                input=stdin,
                capture_output=True,
                timeout=timeout_s,
                check=False,
            )
        except FileNotFoundError as error:
            return CompletedProgram(127, b"", str(error))
        except PermissionError as error:
            return CompletedProgram(126, b"", str(error))
        except subprocess.TimeoutExpired as error:
            raise CallCut(f"no answer within {timeout_s:g} s", timed_out=True) from error
        if len(ended.stdout) > MAX_OUTPUT_BYTES:
            raise CallCut(f"more than {MAX_OUTPUT_BYTES} bytes of output")
        return CompletedProgram(ended.returncode, ended.stdout, readable(ended.stderr))


def readable(data: bytes) -> str:
    """What a program wrote to stderr, for a message."""
    return data[:MAX_ERROR_BYTES].decode("utf-8", "replace").strip()


def spoken(text: str) -> str:
    """Text for people: one line of at most 1,000 characters, lone surrogates replaced."""
    cut = text if len(text) <= _LONGEST_WORDS else f"{text[:_LONGEST_WORDS]} …"
    cut = " ".join(filter(None, map(str.strip, cut.split("\n")))) if "\n" in cut else cut
    return cut if cut.isascii() else SURROGATE.sub("\ufffd", cut)
