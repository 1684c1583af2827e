"""Gives tasks that work over the API the idempotency key by which each is carried out once."""

from __future__ import annotations

import uuid

from ansible.plugins.action.normal import ActionModule as NormalAction

KEY = "idempotency_key"


class ActionModule(NormalAction):
    """Runs the module on its host. All attempts of a task (``retries``) have one key until it is
    known what came of the request; an attempt after that is a new request.
    """

    def run(self, tmp=None, task_vars=None):
        """One attempt."""
        args = self._task.args
        if args.get(KEY):
            return super().run(tmp, task_vars)
        # A plugin is made anew for each attempt; the task is that of this run and item alone.
        attempts = vars(self._task).setdefault("vgpumgr_attempts", Attempts())
        args[KEY] = attempts.key
        try:
            return attempts.after(super().run(tmp, task_vars))
        finally:
            del args[KEY]


class Attempts:
    """The attempts of one task so far. ``begun``: a request of theirs may have changed something,
    and it is not known what came of it.
    """

    def __init__(self):
        self.key = _new_key()
        self.begun = False

    def after(self, result):
        """The result of one more attempt, as it is seen with those before."""
        settled = result.get("settled")
        failed = result.get("failed") or result.get("unreachable")
        begun, self.begun = self.begun, self.begun or bool(result.get("changed"))
        if settled or (settled is None and "settled" in result and not failed):
            self.key, self.begun = _new_key(), False
        result["changed"] = bool(result.get("changed") or begun)
        return result


def _new_key():
    return f"task-{uuid.uuid4()}"
