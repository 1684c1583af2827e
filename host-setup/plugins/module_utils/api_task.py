# Copyright The vgpumgr authors
# SPDX-License-Identifier: Apache-2.0
"""What the modules that work over the API share: arguments, the document, result and failure."""

from __future__ import annotations

import json
import time
import uuid

from ansible.module_utils.basic import AnsibleModule, env_fallback
from ansible_collections.vgpumgr.host.plugins.module_utils.api_client import ApiClient, ApiProblem

API_VERSION = "vgpumgr/v1"
SOURCE = "spec"
"""What the server's messages call the document."""
# Flags of the command line in advice, and what is written in a task for them.
_FLAGS = ("force", "keep-disks", "restart", "with-users")


def arguments(**more):
    """The arguments of a module: those that all have, and its own."""
    return dict(
        name={"type": "str", "required": True},
        spec={"type": "dict"},
        server={"type": "str", "required": True, "fallback": (env_fallback, ["VGPUMGR_SERVER"])},
        ca={"type": "path", "fallback": (env_fallback, ["VGPUMGR_CA"])},
        token={"type": "str", "no_log": True, "fallback": (env_fallback, ["VGPUMGR_TOKEN"])},
        timeout={"type": "int", "default": 900},
        idempotency_key={"type": "str", "no_log": False},
        **more,
    )


class ApiTask:
    """A task that is being carried out: the module, its client, and the result as it grows."""

    def __init__(self, module: AnsibleModule, kind: str) -> None:
        self.module = module
        self.kind = kind
        self.asked = module.params
        self.actions = []
        self.result = {"changed": False, "actions": self.actions, "operation": "", "settled": None}
        self._key = self.asked["idempotency_key"] or str(uuid.uuid4())
        self.client = ApiClient(
            self.asked["server"], self.asked["ca"] or "", self.asked["token"] or ""
        )

    @property
    def name(self) -> str:
        """The name of what the task is about."""
        return self.asked["name"]

    @property
    def wait_s(self) -> int:
        """How long its operations are waited for; 0 for not at all."""
        return self.asked["timeout"] if self.asked["wait"] else 0

    def document(self):
        """The whole document as a request has it: ``spec`` with version, kind and name."""
        head = {"apiVersion": API_VERSION, "kind": self.kind, "name": self.name}
        spec = self.asked["spec"] or {}
        for key, value in head.items():
            if spec.get(key, value) != value:
                raise ApiProblem(
                    "usage", f"spec: {key} is {spec[key]}", f"of this task it is {value}"
                )
        # JSON is YAML; by lines, because messages name them.
        return {"text": json.dumps({**head, **spec}, indent=1), "source": SOURCE}

    def key(self, step: str) -> str:
        """The idempotency key of one of the task's requests."""
        return f"{self._key[:200]}:{step}"

    def change(self, step: str, path: str, body, wait_s: int) -> None:
        """Begin a change, and wait for its end unless ``wait_s`` is 0."""
        self.result["settled"] = False
        operation, answer = self.client.carry_out(path, body, self.key(step), wait_s)
        self.result["operation"] = operation or self.result["operation"]
        if answer is None:
            self.result["changed"] = True
            return
        self.result["settled"] = True
        self.result["changed"] |= bool(operation or answer.get("changes"))
        self.hear(answer)

    def send(self, step: str, method: str, path: str, body=None):
        """The answer of a change that begins no operation."""
        self.result["settled"] = False
        answer = self.client.ask(method, path, body, self.key(step))[1]
        self.result["settled"] = self.result["changed"] = True
        return answer

    def hear(self, answer) -> None:
        """Pass on what is said beside an answer; raise its error, unless it is only that hosts
        that have nothing to do with it could not be read.
        """
        for line in answer.get("messages", []):
            self.module.warn(line)
        if "error" not in answer:
            return
        problem = ApiProblem.of(answer["error"])
        undone = [each for each in answer.get("vms", []) if each.get("state") != "done"]
        if problem.code != "partly" or undone:
            raise problem
        self.module.warn(f"{problem.message}: {problem.why}")

    def plan(self, kind: str, name: str, host: str = "", details=()) -> None:
        """Write down one more thing that is to be done."""
        self.actions.append({"kind": kind, "name": name, "host": host, "details": list(details)})

    def show(self) -> None:
        """Put the actions into the result, as a diff where one is wanted."""
        if self.module._diff:
            self.result["diff"] = {"prepared": "".join(map(_line, self.actions))}

    def until(self, holds, what: str) -> None:
        """Ask again and again, a second apart, until it holds."""
        end = time.monotonic() + self.asked["timeout"]
        while not holds():
            if time.monotonic() >= end:
                raise ApiProblem(
                    "deadline",
                    f"{what}: not after {self.asked['timeout']} s",
                    next=f"is `vgpumgr serve` running? vgpumgr pool explain {self.name}",
                )
            time.sleep(1.0)

    def fail(self, problem: ApiProblem) -> None:
        """End the module with what the problem document says."""
        if self.result["settled"] is False:  # it is the answer to a request
            self.result["settled"] = problem.settled
            self.result["changed"] |= problem.settled is False
        self.result["operation"] = problem.operation or self.result["operation"]
        _fail(self.module, problem, self.result)


def carry_out(module: AnsibleModule, kind: str, work) -> None:
    """Carry out a task by ``work``, which gets an :class:`ApiTask`, and end the module."""
    try:
        task = ApiTask(module, kind)
    except ApiProblem as problem:
        _fail(module, problem, {})
        return
    try:
        work(task)
    except ApiProblem as problem:
        task.fail(problem)
    module.exit_json(**task.result)


def _fail(module: AnsibleModule, problem: ApiProblem, result) -> None:
    told = {"code": problem.code, "why": problem.why, "next": problem.next}
    module.fail_json(msg=_message(problem, module.argument_spec), **told, **result)


def _message(problem: ApiProblem, options) -> str:
    lines = [f"{problem.message} [{problem.code}]"]
    lines += [f"why: {problem.why}"] if problem.why else []
    lines += [f"next: {problem.next}"] if problem.next else []
    keys = [flag.replace("-", "_") for flag in _FLAGS if f"--{flag}" in problem.next]
    lines += [f"in the task: {key}: true" for key in keys if key in options]
    return "\n".join(lines)


def _line(action) -> str:
    where = " on {}".format(action["host"]) if action["host"] else ""
    details = ": {}".format("; ".join(action["details"])) if action["details"] else ""
    return "{} {}{}{}\n".format(action["kind"], action["name"], where, details)
