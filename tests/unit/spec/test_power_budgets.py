"""``kind: PowerBudget``: what is read, and what is refused with its place."""

from __future__ import annotations

import pytest

from vgpumgr.model.power import PowerBudget, PowerMeter
from vgpumgr.spec import SpecError
from vgpumgr.spec.single_kind import load_budgets

SITE = "apiVersion: vgpumgr/v1\nkind: PowerBudget\nname: site\nwatts: 100000\n"
PDU = (
    "apiVersion: vgpumgr/v1\nkind: PowerBudget\nname: pdu-1\nparent: site\nwatts: 12800\n"
    "hosts: [h1]\nhost_labels: {rack: r1}\nhost_watts: 600\n"
)


def test_every_key_reaches_the_model() -> None:
    assert load_budgets(f"{SITE}---\n{PDU}", "f.yaml") == (
        PowerBudget(name="site", watts=100_000),
        PowerBudget(
            name="pdu-1",
            watts=12_800,
            parent="site",
            hosts=("h1",),
            host_labels={"rack": "r1"},
            host_watts=600,
        ),
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no document with kind: PowerBudget"),
        (SITE.replace("100000", "0"), "watts"),
        (SITE.replace("100000", "lots"), "watts"),
        (SITE.replace("PowerBudget", "Powerbudget"), "kind"),
        (f"{SITE}parent: site\n", "is the budget itself"),
        (f"{SITE}---\n{SITE}", "another document has that name"),
        (f"{SITE}host_labels: {{}}\n", "host_labels"),
        (f"{SITE}colour: red\n", "colour"),
    ],
)
def test_what_is_no_budget_is_refused(text: str, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        load_budgets(text, "f.yaml")


METER = "meter: {url: 'https://pdu-1', user: reader, secret: pdu-1}\n"


def test_a_meter_reaches_the_model() -> None:
    [found] = load_budgets(f"{SITE}{METER}", "f.yaml")
    assert found.meter == PowerMeter(url="https://pdu-1", user="reader", secret="pdu-1")


@pytest.mark.parametrize(
    ("meter", "says"),
    [
        (METER.replace("https", "http"), "is not a Redfish service"),
        (METER.replace("pdu-1'", "pdu-1/x?y=1'"), "is not a Redfish service"),
        (METER.replace("pdu-1'", "pdu-1:99999'"), "is not a Redfish service"),
        (METER.replace("//pdu-1", "//[::1"), "is not a Redfish service"),
        (METER.replace("//pdu-1", "//u:p@pdu-1"), "holds a user"),
        (METER.replace(", secret: pdu-1", ""), "user and secret go together"),
        (METER.replace("secret: pdu-1", "secret: pdu-1, certificate: abc"), "is not a SHA-256"),
    ],
)
def test_what_is_no_meter_is_refused(meter: str, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        load_budgets(f"{SITE}{meter}", "f.yaml")
