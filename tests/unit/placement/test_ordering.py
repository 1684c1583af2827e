"""Which reasons come first, and which are told together."""

from __future__ import annotations

import random

from vgpumgr.model.placement import Reason, by_board, nearest_first


def gpu(code: str, text: str, host: str = "h1", model: str = "A40", **facts: int) -> Reason:
    device = f"0000:{len(host):02x}:00.0"
    text = text.replace("GPU", f"{model} {device}")
    return Reason(
        code=code, host=host, text=text, gpu=host, device=device, model=model, facts=facts
    )


QUOTA = Reason(code="quota", host="", text="tenant a: VMs: 2 of 2 used, 1 asked")
FITS = gpu("fits", "GPU has room")
LAYOUT = gpu("needs-layout", "GPU could make it")
TIGHT = gpu("free-slots", "GPU has 6 of 48 units free, 8 are needed", "h2", free=6, need=8)
FULL = gpu("free-slots", "GPU has 0 of 48 units free, 8 are needed", "h3", free=0, need=8)
VCPUS = Reason(code="vcpus", host="h4", text="h4 has 1 vCPUs free", facts={"free": 1, "need": 2})
CLOSED = Reason(code="host-blocked", host="h5", text="h5: cordoned")
GONE = Reason(code="host-blocked", host="h6", text="h6: not reached")
LABELS = Reason(code="host-labels", host="h7", text="h7 has no labels")
MODEL = gpu("model", "GPU is not of model A40", "h8", "T4")


def test_what_is_nearest_to_a_yes_comes_first_in_whatever_order_it_was_found() -> None:
    wanted = [QUOTA, FITS, LAYOUT, TIGHT, FULL, VCPUS, CLOSED, LABELS, MODEL]
    shuffled = list(wanted)
    random.Random(7).shuffle(shuffled)
    assert list(nearest_first(shuffled)) == wanted


def test_where_two_are_as_near_the_first_of_the_fleet_comes_first() -> None:
    assert nearest_first([GONE, MODEL, CLOSED]) == (GONE, CLOSED, MODEL)


def test_gpus_of_a_board_are_told_together_with_the_numbers_of_the_nearest() -> None:
    tight, model = by_board([MODEL, FULL, TIGHT])
    assert tight.reasons == (TIGHT, FULL)
    assert tight.text == f"{TIGHT.text} (and 1 more GPU alike, on h3)"
    assert (model.text, model.far, tight.far) == (MODEL.text, True, False)


def test_the_same_of_several_gpus_names_none_of_them() -> None:
    others = [gpu("model", "GPU is not of model A40", f"h{n}", "T4") for n in range(30)]
    (group,) = by_board(others)
    assert group.text == "T4 is not of model A40"
    assert len(group.hosts) == 30


def test_what_differs_in_more_than_numbers_is_no_one_reason() -> None:
    assert [each.text for each in by_board([CLOSED, GONE])] == ["h5: cordoned", "h6: not reached"]
