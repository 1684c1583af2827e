"""What a command prints as next is right when it is typed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.support import Cli, Ran, host, new_cli, vm

pytestmark = pytest.mark.mainline


@pytest.fixture
def cli() -> Iterator[Cli]:
    with new_cli() as found:
        found.sim_up(host("one", ("T4", 1)), host("two", ("A40", 1)))
        yield found


def hints(text: str) -> list[list[str]]:
    """The commands of a hint, without what is said beside them in brackets."""
    said = re.sub(r"   \(.*?\)(?=;|$)", "", text, flags=re.MULTILINE)
    found = re.findall(r"vgpumgr [^,;\n]+", said)
    return [shlex.split(each.removesuffix(" first"))[1:] for each in found]


Then = tuple[str, ...]


def beyond_quota(cli: Cli) -> tuple[str, Then]:
    file = of_a_tenant(cli)
    return next_of(cli.fails(5, "apply", "-f", file, "-o", "json")), ("apply", "-f", file)


def beyond_quota_explained(cli: Cli) -> tuple[str, Then]:
    file = of_a_tenant(cli)
    found = cli.fails(5, "explain", "-f", file, "-o", "json").json["items"][1]
    return found["changes"][0]["next"], ("apply", "-f", file)


def of_a_tenant(cli: Cli) -> str:
    """Two VMs, of which its quota allows one."""
    cli.ok("quota", "set", "render", "--gpus", "1")
    return cli.documents(vm("a", "T4-4Q", tenant="render"), vm("b", "T4-4Q", tenant="render"))


def the_seventh(cli: Cli) -> tuple[str, Then]:
    """Of three that a file asks for, the third has no room."""
    file = cli.documents(vm("many", "T4-8Q", replicas=3))
    return next_of(cli.fails(5, "apply", "-f", file, "-o", "json")), ()


def partly(cli: Cli) -> tuple[str, Then]:
    file = cli.documents(vm("many", "T4-8Q", replicas=3))
    return next_of(cli.fails(7, "apply", "-f", file, "--partial", "-o", "json")), ()


def healed(cli: Cli) -> tuple[str, Then]:
    cli.ok("apply", "-f", cli.documents(vm("a", "T4-4Q")))
    cli.ok("sim", "inject", "one", "destroy", "a")
    return f"{cli.fails(10, 'heal').err.strip()} -y", ("drift",)


def no_such_vm_in_file(cli: Cli) -> tuple[str, Then]:
    file = cli.documents(vm("a", "T4-4Q"))
    return next_of(cli.fails(3, "explain", "-f", file, "--vm", "b", "-o", "json")), ()


def never_asked_for(cli: Cli) -> tuple[str, Then]:
    file = cli.documents(vm("a", "T4-4Q"))
    hint = next_of(cli.fails(3, "explain", "a", "-o", "json"))
    return hint.replace("FILE", file), ()


def a_host_for_a_profile(cli: Cli) -> tuple[str, Then]:
    return next_of(cli.fails(2, "simulate", "--add", "two=3", "-o", "json")), ()


def next_of(ran: Ran) -> str:
    return str(ran.error["next"])


@pytest.mark.parametrize(
    ("refused", "code"),
    [
        (beyond_quota, 0), (beyond_quota_explained, 0), (the_seventh, (5, 7)), (partly, 5),
        (healed, 0), (no_such_vm_in_file, 0), (never_asked_for, 0), (a_host_for_a_profile, 0),
    ],
)  # fmt: skip
def test_the_hint_is_a_command_that_helps(
    cli: Cli, refused: Callable[[Cli], tuple[str, Then]], code: int | tuple[int, ...]
) -> None:
    hint, then = refused(cli)
    commands = hints(hint)
    assert commands, hint
    codes = code if isinstance(code, tuple) else (code,) * len(commands)
    for words, code in zip(commands, codes, strict=True):
        typed = cli(*words)
        assert typed.code == code, f"{words}: {typed.code}: {typed.out}{typed.err}"
    if then:
        cli.ok(*then)
