"""XML metacharacters in every string field: refused, or inert in the domain's XML."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from lxml import etree

from tests.e2e.support import Cli, host, new_cli, vm

META = """a"'<x y=1>&amp;]]><!-- &#10;"""
PLAIN = "plain"
REFUSED = 2

# field → (the VM's part that holds the text, whether the text is legal there)
FIELDS: dict[str, tuple[Any, bool]] = {
    "name": (lambda text: {"name": text}, False),
    "tenant": (lambda text: {"tenant": text}, False),
    "label value": (lambda text: {"labels": {"key": text}}, True),
    "label name": (lambda text: {"labels": {text: "value"}}, False),
    "profile": (lambda text: {"gpus": [{"profile": text}]}, False),
    "pool": (lambda text: {"disks": [{"size": "1GiB", "pool": text}]}, True),
    "image": (lambda text: {"disks": [{"mode": "overlay", "image": text}]}, True),
    "network": (lambda text: {"networks": [{"network": text}]}, True),
    "bridge": (lambda text: {"networks": [{"bridge": text}]}, False),
    "host": (lambda text: {"affinity": {"hosts": [text]}}, False),
    "user data": (lambda text: {"cloud_init": {"user_data": text}}, True),
    "network config": (lambda text: {"cloud_init": {"network_config": text}}, True),
    "firmware": (lambda text: {"firmware": text}, False),
    "memory": (lambda text: {"memory": text}, False),
}


@pytest.fixture(scope="module")
def cli() -> Iterator[Cli]:
    """A host whose pool, network and image carry the strangest legal names."""
    with new_cli() as found:
        named = {
            "pools": ["default", META, PLAIN],
            "networks": [META, PLAIN],
            "images": [META, PLAIN],
        }
        found.sim_up(host("one", ("T4", 1), **named))
        yield found


def shape(xml: str) -> list[tuple[str, tuple[str, ...]]]:
    """Every element with the names of its attributes, in order."""
    return [(each.tag, tuple(sorted(each.attrib))) for each in etree.fromstring(xml).iter()]


def made(cli: Cli, part: dict[str, Any]) -> str:
    """The XML of a VM with this part; the VM is gone afterwards."""
    document = vm("a", **part)
    cli.ok("apply", "-f", cli.documents(document))
    xml = cli.ok("vm", "xml", "a").out
    for form in ("table", "json", "yaml", "csv"):
        cli.ok("vm", "list", "-o", form)
    cli.ok("vm", "delete", "a", "--force", "-y")
    return xml


@pytest.mark.parametrize("field", [field for field, (_, legal) in FIELDS.items() if legal])
def test_metacharacters_are_inert_where_they_are_legal(cli: Cli, field: str) -> None:
    part, _ = FIELDS[field]
    with_meta, with_plain = made(cli, part(META)), made(cli, part(PLAIN))
    assert shape(with_meta) == shape(with_plain)
    assert "<x " not in with_meta


@pytest.mark.parametrize("field", [field for field, (_, legal) in FIELDS.items() if not legal])
def test_metacharacters_are_refused_where_they_are_not(cli: Cli, field: str) -> None:
    part, _ = FIELDS[field]
    cli.fails(REFUSED, "apply", "-f", cli.documents({**vm("a"), **part(META)}))
    assert cli.items("vm", "list") == []


def test_a_label_comes_back_from_the_domain_as_it_was_written(cli: Cli) -> None:
    tree = etree.fromstring(made(cli, {"labels": {"key": META}}))
    (label,) = tree.iter("{https://vgpumgr.dev/v1}label")
    assert label.get("value") == META


def test_a_model_with_metacharacters_fits_nowhere(cli: Cli) -> None:
    gpu = {"profile": "T4-4Q", "model": META}
    failed = cli.fails(5, "apply", "-f", cli.documents(vm("a", gpus=[gpu])), "-o", "json")
    assert META in failed.error["why"]


@pytest.mark.parametrize("flag", ["--network", "--image", "--disk", "--profile"])
def test_metacharacters_on_the_command_line_go_the_same_way(cli: Cli, flag: str) -> None:
    ran = cli("vm", "create", "a", flag, META)
    if ran.code == 0:
        assert "<x " not in cli.ok("vm", "xml", "a").out
        cli.ok("vm", "delete", "a", "--force", "-y")
    else:
        assert ran.code == REFUSED


@pytest.mark.parametrize("text", ["\x1b[31mred", "a\nb", "a\u202eb", "\ufffe"])
def test_control_characters_are_refused_and_not_repeated(cli: Cli, text: str) -> None:
    failed = cli.fails(REFUSED, "apply", "-f", cli.documents(vm("a", labels={"k": text})))
    assert "\x1b" not in failed.err
    assert "\u202e" not in failed.err
