"""One line of JSON on stdout for whatever happens; ``vgpumgr host add --bootstrap`` reads them."""

from __future__ import annotations

import json
import sys

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: progress
type: stdout
short_description: One line of JSON per task of a host
description:
  - Lines are objects with C(event), one of C(start) (C(role), C(task)), C(task) (also C(host),
    C(outcome), C(message), C(diff)) and C(end) (C(hosts), what C(set_stats) left per host).
extends_documentation_fragment:
  - default_callback
"""

WORDS = ("msg", "stderr", "stdout", "module_stderr", "module_stdout", "reason")


class CallbackModule(CallbackBase):
    """Told by Ansible of each task's start and end."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "vgpumgr.host.progress"

    def v2_playbook_on_task_start(self, task, is_conditional):
        """A task begins, on all hosts."""
        _say(event="start", **_named(task))

    def v2_playbook_on_handler_task_start(self, task):
        """A handler begins."""
        _say(event="start", **_named(task))

    def v2_runner_on_ok(self, result):
        """A task ended well on a host."""
        self._ended(result, "changed" if result._result.get("changed") else "ok")

    def v2_runner_on_failed(self, result, ignore_errors=False):
        """A task failed on a host."""
        self._ended(result, "ok" if ignore_errors else "failed")

    def v2_runner_on_unreachable(self, result):
        """A host could not be reached."""
        self._ended(result, "unreachable")

    def v2_playbook_on_stats(self, stats):
        """All is done."""
        left = {host: data for host, data in stats.custom.items() if host != "_run"}
        _say(event="end", hosts={host: left.get(host, {}) for host in stats.processed})

    def _ended(self, result, outcome):
        _say(
            event="task",
            host=result._host.get_name(),
            outcome=outcome,
            message="; ".join(dict.fromkeys(_messages(result._result))),
            diff="".join(self._diffs(result._result)) if outcome == "changed" else "",
            **_named(result._task),
        )

    def _diffs(self, result):
        for each in _parts(result):
            if each.get("diff") and each.get("changed"):
                yield self._get_diff(each["diff"])


def _named(task):
    role = task._role.get_name() if task._role else ""
    return {"role": role.rpartition(".")[2], "task": task.name or task.action}


def _parts(result):
    """The result itself, or those of its items."""
    return [each for each in result.get("results", ()) if isinstance(each, dict)] or [result]


def _messages(result):
    for each in _parts(result):
        if each.get("failed") or each.get("unreachable") or "results" not in result:
            yield from (str(each[word]).strip() for word in WORDS if each.get(word))


def _say(**event):
    sys.stdout.write(json.dumps(event, default=str) + "\n")
    sys.stdout.flush()
