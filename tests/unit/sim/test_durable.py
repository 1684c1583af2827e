"""What survives a power cut of the simulated hosts."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from vgpumgr.sim.machine.durable_texts import Durable, DurableJournal

KEYS = st.sampled_from(["file:/a", "domain:b", "volume:c"])
CHANGES = st.lists(st.tuples(KEYS, st.none() | st.text(max_size=20)), max_size=20)


def reopened(path: Path) -> dict[str, str]:
    journal = DurableJournal(path)
    found = dict(Durable("h1", journal))
    journal.close()
    return found


@settings(deadline=None)
@given(changes=CHANGES)
def test_the_journal_gives_back_what_was_last_written(
    changes: list[tuple[str, str | None]], tmp_path_factory: object
) -> None:
    path = tmp_path_factory.mktemp("journal") / "durable.jsonl"  # type: ignore[attr-defined]
    journal = DurableJournal(path)
    texts, expected = Durable("h1", journal), {}
    for key, text in changes:
        if text is None:
            texts.pop(key, None)
            expected.pop(key, None)
        else:
            texts[key] = expected[key] = text
    journal.close()
    assert dict(texts) == expected
    assert reopened(path) == expected
    assert reopened(path) == expected


def test_hosts_do_not_see_each_others_texts(tmp_path: Path) -> None:
    journal = DurableJournal(tmp_path / "j")
    Durable("h1", journal)["key"] = "one"
    Durable("h2", journal)["key"] = "two"
    journal.close()
    assert reopened(tmp_path / "j") == {"key": "one"}


def test_a_line_cut_while_it_was_written_never_happened(tmp_path: Path) -> None:
    path = tmp_path / "j"
    journal = DurableJournal(path)
    texts = Durable("h1", journal)
    texts["a"] = "kept"
    texts["b"] = "cut"
    journal.close()
    path.write_bytes(path.read_bytes()[:-5])
    assert reopened(path) == {"a": "kept"}


def test_opening_drops_what_was_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "j"
    journal = DurableJournal(path)
    texts = Durable("h1", journal)
    for number in range(100):
        texts["a"] = str(number)
    journal.close()
    assert reopened(path) == {"a": "99"}
    assert len(path.read_text().splitlines()) == 1


def test_texts_under_a_prefix_are_named_by_the_rest_of_their_key() -> None:
    texts = Durable("h1")
    texts.update({"domain:a": "1", "domain:b": "2", "file:a": "3"})
    assert texts.under("domain:") == {"a": "1", "b": "2"}
