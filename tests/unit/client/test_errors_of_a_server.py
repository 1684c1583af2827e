"""What comes over the wire is what was sent: errors with their details, texts like times."""

from __future__ import annotations

from vgpumgr.model.errors import UsageError, error_from
from vgpumgr.model.json_times import timed, untimed


def test_an_error_of_a_kind_that_is_not_loaded_keeps_its_code_and_exit_status() -> None:
    told = {
        "code": "usage.unheard",
        "message": "no",
        "why": "",
        "next": "",
        "exit": 2,
        "lines": [1],
    }
    error = error_from({**told, "title": "no", "status": 400})
    assert (isinstance(error, UsageError), error.as_dict()) == (True, told)


def test_a_label_is_no_time() -> None:
    labels = {"made_at": "2026-11-24", "at": 1.5}
    assert untimed(timed(labels)) == labels
