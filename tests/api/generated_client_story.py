"""What the generated client does; run by ``generated_client.py``, which makes it first."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any


def of(name: str) -> Any:
    """A module of the generated package."""
    return import_module(f"vgpumgr_client.{name}")


def main() -> None:
    client = of("client").AuthenticatedClient(
        base_url=os.environ["VGPUMGR_URL"], token=os.environ["VGPUMGR_TOKEN"]
    )
    with client:
        hosts = of("api.host.host_list").sync(client=client)
        assert [each.name for each in hosts.items] == ["h1", "h2"], hosts
        text = Path(sys.argv[1]).read_text()
        body = of("models.apply_vms").ApplyVms(text=text, source="made.yaml")
        apply = of("api.vm.vm_apply").sync_detailed
        first = apply(client=client, body=body, idempotency_key="made-1")
        again = apply(client=client, body=body, idempotency_key="made-1")
        assert first.status_code == 202, first
        assert again.status_code in {200, 202}, again  # it may have ended by then
        assert first.parsed.id == again.parsed.name
        show = of("api.operation.operation_show").sync
        while not (whole := show(first.parsed.id, client=client, wait="10s")).done:
            assert whole.state != "failed", whole
        names, after = [], of("types").UNSET
        while True:
            page = of("api.vm.vm_list").sync(client=client, page_size=1, page_after=after)
            names += [each.name for each in page.items]
            after = page.next_page
            if not isinstance(after, str):
                break
        assert names == ["made-a", "made-b"], names
        told = of("api.vm.vm_show").sync_detailed("nope", client=client)
        assert (told.status_code, told.parsed.code) == (404, "not-found"), told
    print("hosts, an apply that was asked for twice, its end, pages and a problem: as described")


if __name__ == "__main__":
    main()
