"""Names in cloud-init text that stand for what a VM is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.simworld import SimWorld, host, vm
from vgpumgr.engine.steps import cloud_init_seed
from vgpumgr.engine.steps.cloud_init_seed import build_seed
from vgpumgr.model.vm_devices import CloudInit
from vgpumgr.spec import load

HEAD = "apiVersion: vgpumgr/v1\nkind: VM\nname: a\n"
TEXT = "hostname: {{ name }}\nmotd: {{host}} of {{ tenant }}"


@pytest.fixture
def seeds(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What seeds are made of, as they are made."""
    made: list[dict[str, Any]] = []

    def build(**given: Any) -> bytes:
        made.append(given)
        return build_seed(**given)

    monkeypatch.setattr(cloud_init_seed, "build_seed", build)
    return made


@pytest.mark.parametrize(
    ("template", "expected"), [(True, "hostname: desk\nmotd: h1 of cad"), (False, "{{ name }}")]
)
def test_names_are_put_in_where_that_is_asked_for(
    tmp_path: Path, seeds: list[dict[str, Any]], template: bool, expected: str
) -> None:
    world = SimWorld(tmp_path, host("T4"))
    world.engine.refresh()
    asked = CloudInit(user_data=TEXT, template=template)
    world.apply(vm("desk", cloud_init=asked, tenant="cad"))
    [seed] = seeds
    assert expected in seed["user_data"]
    assert world.ledger.vm("desk").spec.cloud_init == asked
    world.close()


def test_a_name_that_is_not_known_is_refused_with_its_line() -> None:
    text = HEAD + 'cloud_init: {template: true, user_data: "{{ name }} {{ nmae.upper() }}"}\n'
    with pytest.raises(Exception, match="nmae") as refused:
        load(text, "f.yaml")
    assert "host, name, tenant" in str(refused.value)
    plain = text.replace("template: true", "template: false")
    assert load(plain, "f.yaml").vms[0].cloud_init is not None
