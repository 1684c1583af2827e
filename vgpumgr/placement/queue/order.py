"""What comes before what: dependencies, and who of those that wait is served first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def cycle(after: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """VMs that wait for each other, each for the next and the last for the first; () if none do.

    ``after`` says for each VM which others must have ended; names it does not map wait for none.
    """
    done: set[str] = set()
    for start in after:
        path: dict[str, None] = {}
        turns = [(start, iter(after[start]))] if start not in done else []
        while turns:
            name, others = turns[-1]
            path[name] = None
            following = next((other for other in others if other not in done), None)
            if following is None:
                turns.pop()
                del path[name]
                done.add(name)
            elif following in path:
                names = list(path)
                return tuple(names[names.index(following) :])
            else:
                turns.append((following, iter(after.get(following, ()))))
    return ()
