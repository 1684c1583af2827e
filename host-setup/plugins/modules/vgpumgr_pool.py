#!/usr/bin/python
# Copyright The vgpumgr authors
# SPDX-License-Identifier: Apache-2.0
"""Pools of desktops, as vgpumgr's API records and deletes them."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: vgpumgr_pool
short_description: Pools of desktops with GPUs on a fleet of vgpumgr
version_added: 0.2.0
description:
  - Records, changes and deletes pools of desktops over the HTTP API of vgpumgr.
  - What there is to do is decided by the server's plan. The desktops themselves are created and
    deleted by C(vgpumgr serve).
author:
  - The vgpumgr authors (!UNKNOWN)
options:
  state:
    description:
      - V(present) records the pool as O(spec) says.
      - V(absent) deletes a pool that nobody uses, with its desktops.
    type: str
    choices: [present, absent]
    default: present
  wait:
    description:
      - Wait until C(vgpumgr serve) has as many desktops ready as the pool has at least, or until
        the last one is deleted.
    type: bool
    default: false
extends_documentation_fragment:
  - vgpumgr.host.server
attributes:
  check_mode:
    support: full
    description: Nothing is changed; what the server's plan refuses is refused.
  diff_mode:
    support: full
    description: A line for each change of the plan.
"""

EXAMPLES = r"""
- name: Desktops for the group cad
  vgpumgr.host.vgpumgr_pool:
    server: https://gpu.example.org:8443
    token: "{{ vgpumgr_token }}"
    name: cad
    spec:
      image: cad@1
      vcpus: 4
      memory: 8GiB
      gpus: [{profile: T4-4Q}]
      min: 2
      max: 10
      entitlement: {groups: [cad]}

- name: No pool any more, and none of its desktops
  vgpumgr.host.vgpumgr_pool:
    server: https://gpu.example.org:8443
    token: "{{ vgpumgr_token }}"
    name: cad
    state: absent
    wait: true
"""

RETURN = r"""
actions:
  description: What was done, or in check mode would be.
  returned: always
  type: list
  elements: dict
  contains:
    kind:
      description: One of C(create), C(change), C(delete).
      type: str
      returned: always
    name:
      description: The pool.
      type: str
      returned: always
    host:
      description: Empty.
      type: str
      returned: always
    details:
      description: Lines for people.
      type: list
      elements: str
      returned: always
operation:
  description: Empty; pools have no operation of their own.
  returned: always
  type: str
settled:
  description: Whether it is known what came of the task's request; null where it made none.
  returned: always
  type: bool
pool:
  description: The pool as C(vgpumgr pool show -o json) has it.
  returned: on success, where there is one
  type: dict
code:
  description: The code of the error, which is stable.
  returned: on failure
  type: str
  sample: placement.none
why:
  description: Its cause.
  returned: on failure
  type: str
next:
  description: What to do next.
  returned: on failure
  type: str
"""

from urllib.parse import quote

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vgpumgr.host.plugins.module_utils.api_client import ApiProblem
from ansible_collections.vgpumgr.host.plugins.module_utils.api_task import (
    ApiTask,
    arguments,
    carry_out,
)


def work(task: ApiTask) -> None:
    """Bring the pool of a task into its state."""
    if task.asked["state"] == "absent":
        _delete(task)
    else:
        _apply(task)


def _apply(task: ApiTask) -> None:
    plan = task.client.post("/pools:plan", task.document())
    task.hear(plan)
    for each in plan["pools"]:
        for line in each["warnings"]:
            task.module.warn(line)
        if each["new"] or each["changes"]:
            task.plan("create" if each["new"] else "change", each["pool"], details=each["changes"])
    task.show()
    if task.module.check_mode:
        task.result["changed"] = bool(task.actions)
        return
    if task.actions:
        task.hear(task.send("apply", "POST", "/pools:apply", task.document()))
    if task.asked["wait"]:
        task.until(lambda: _is_filled(_pool(task)), f"pool {task.name} has its desktops")
    task.result["pool"] = _pool(task)


def _delete(task: ApiTask) -> None:
    found = _pool(task)
    if found is not None and found["state"] != "leaving":
        desktops = [each["name"] for each in found["items"]]
        task.plan("delete", task.name, details=desktops)
    task.show()
    if task.module.check_mode:
        task.result["changed"] = bool(task.actions)
        return
    if task.actions:
        task.hear(task.send("delete", "DELETE", _path(task)))
    if task.asked["wait"]:
        task.until(lambda: _pool(task) is None, f"pool {task.name} is gone")


def _is_filled(pool) -> bool:
    return pool is not None and pool["ready"] >= pool["min"]


def _path(task: ApiTask) -> str:
    return "/pools/" + quote(task.name, safe="")


def _pool(task: ApiTask):
    """The pool with its desktops; None where there is none."""
    try:
        return task.client.get(_path(task))
    except ApiProblem as problem:
        if problem.code != "not-found":
            raise
        return None


def main() -> None:
    """Run as a module."""
    module = AnsibleModule(
        argument_spec=arguments(
            state={"type": "str", "choices": ["present", "absent"], "default": "present"},
            wait={"type": "bool", "default": False},
        ),
        required_if=[("state", "present", ["spec"])],
        supports_check_mode=True,
    )
    carry_out(module, "Pool", work)


if __name__ == "__main__":
    main()
