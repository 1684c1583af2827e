#!/usr/bin/python
# Copyright The vgpumgr authors
# SPDX-License-Identifier: Apache-2.0
"""VMs with GPUs, as vgpumgr's API creates, changes, starts, stops and deletes them."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: vgpumgr_vm
short_description: VMs with GPUs on a fleet of vgpumgr
version_added: 0.2.0
description:
  - Creates, changes, starts, stops and deletes VMs over the HTTP API of vgpumgr.
  - What there is to do is decided by the server's plan, which probes the hosts.
author:
  - The vgpumgr authors (!UNKNOWN)
options:
  state:
    description:
      - V(present) makes the VM as O(spec) says; a new one is started, and one that was stopped
        stays stopped.
      - V(running) and V(stopped) start or stop it as well; without O(spec) it must be there.
      - V(absent) deletes it with the disks that were made for it, and takes it from the queue.
      - With C(replicas) in O(spec), it is all of them.
    type: str
    choices: [present, running, stopped, absent]
    default: present
  restart:
    description: The VM may be stopped for changes that need it.
    type: bool
    default: false
  force:
    description: Power it off instead of asking its guest; delete it though it runs.
    type: bool
    default: false
  keep_disks:
    description: Keep the disks that were made for it when it is deleted.
    type: bool
    default: false
  with_users:
    description: Stop it even where a user is at work.
    type: bool
    default: false
  wait:
    description:
      - Wait until the operation has ended. Otherwise the task ends as soon as everything is
        reserved.
    type: bool
    default: true
extends_documentation_fragment:
  - vgpumgr.host.server
attributes:
  check_mode:
    support: full
    description: Nothing is changed; what the server's plan would refuse is refused.
  diff_mode:
    support: full
    description: A line for each action of the plan.
"""

EXAMPLES = r"""
- name: A desktop with a quarter of a T4
  vgpumgr.host.vgpumgr_vm:
    server: https://gpu.example.org:8443
    token: "{{ vgpumgr_token }}"
    name: desk
    spec:
      vcpus: 4
      memory: 8GiB
      gpus: [{profile: T4-4Q}]
      disks: [{mode: overlay, image: debian-12.qcow2}]
      networks: [{network: default}]

- name: Stop it for the night, without asking its guest
  vgpumgr.host.vgpumgr_vm:
    server: unix:/run/vgpumgr/api.sock
    name: desk
    state: stopped
    force: true

- name: Delete it, and keep its disks
  vgpumgr.host.vgpumgr_vm:
    server: unix:/run/vgpumgr/api.sock
    name: desk
    state: absent
    force: true
    keep_disks: true
"""

RETURN = r"""
actions:
  description: What was done, or in check mode would be.
  returned: always
  type: list
  elements: dict
  contains:
    kind:
      description:
        - One of C(create), C(change), C(start), C(resume), C(queue), C(stop), C(delete), C(cancel).
      type: str
      returned: always
    name:
      description: The VM.
      type: str
      returned: always
    host:
      description: The host, where the plan names one.
      type: str
      returned: always
    details:
      description: Lines for people.
      type: list
      elements: str
      returned: always
operation:
  description: The last operation that was begun, or empty.
  returned: always
  type: str
settled:
  description: Whether it is known what came of the task's request; null where it made none.
  returned: always
  type: bool
vms:
  description: The VMs that there are afterwards, as C(vgpumgr vm show -o json) has them.
  returned: on success, where the task has waited and nothing is absent
  type: list
  elements: dict
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

OFF = frozenset({"shutoff", "crashed"})
FEW = 2
"""So many VMs are asked for one by one."""
STARTING = frozenset({"create", "resume", "start"})


def work(task: ApiTask) -> None:
    """Bring the VMs of a task into its state."""
    if task.asked["state"] == "absent":
        _delete(task)
    else:
        _apply(task)


def _apply(task: ApiTask) -> None:
    state = task.asked["state"]
    planned = _plan(task) if task.asked["spec"] is not None else []
    switched = _to_switch(task, planned) if state != "present" else []
    _check(task, planned)
    for name in switched:
        task.plan("start" if state == "running" else "stop", name)
    task.show()
    if task.module.check_mode:
        task.result["changed"] = bool(task.actions)
        return
    if planned:
        body = {**task.document(), "restart": task.asked["restart"]}
        wait_s = task.asked["timeout"] if switched else task.wait_s
        task.change("apply", "/vms:apply", body, wait_s)
    if switched:
        _switch(task, switched)
    if task.result["settled"] is not False:
        task.result["vms"] = list(_items(task).values())


def _plan(task: ApiTask):
    """What the server would do for the document."""
    plan = task.client.post("/vms:plan", task.document())
    task.hear(plan)
    found = [dict(each, name=each["vm"]) for each in plan["actions"]]
    if task.asked["state"] == "stopped":  # what only does not run is as it should be
        found = [each for each in found if each["kind"] != "start"]
    for each in found:
        task.plan(each["kind"], each["name"], each["host"], each["details"])
    for each in plan["waiting"]:
        if each["new"]:
            task.plan("queue", each["vm"], details=[each["why"]])
            found.append({"kind": "queue", "name": each["vm"]})
    for each in plan["unplaced"]:
        found.append({"kind": "refuse", "name": each["vm"], "reasons": each["reasons"]})
    return found


def _check(task: ApiTask, planned) -> None:
    """Refuse in check mode what the server would refuse; else it is the server that does."""
    if not task.module.check_mode:
        return
    for each in planned:
        if each["kind"] == "refuse":
            why = "; ".join(reason["text"] for reason in each["reasons"][:5])
            raise ApiProblem("placement.none", "{} fits nowhere".format(each["name"]), why)
        said = "; ".join(each.get("details", ()))
        if each.get("replace"):
            message = "{} cannot be changed so in place".format(each["name"])
            raise ApiProblem("conflict", message, said, each["replace"])
        if each.get("needs_restart") and not task.asked["restart"]:
            message = "the change needs a stop of {}".format(each["name"])
            raise ApiProblem("conflict", message, said, "vgpumgr apply -f spec --restart")


def _to_switch(task: ApiTask, planned):
    """The VMs to start or to stop, beside what the plan does with them."""
    starting = [each["name"] for each in planned if each["kind"] in STARTING]
    known = _looks(task)
    if task.asked["state"] == "running":
        there = [name for name, vm in known.items() if not _runs(vm)]
        return [name for name in there if name not in starting]
    there = [name for name, vm in known.items() if not _is_stopped(vm)]
    return [*there, *(name for name in starting if name not in there)]


def _looks(task: ApiTask):
    """The VMs of the task that there are, by name, as their hosts show them now."""
    if task.asked["spec"] is None:
        listed = task.client.get("/vms?refresh=true")
        task.hear({key: listed[key] for key in ("error",) if key in listed})  # no foreign notes
        mine = {vm["name"]: vm for vm in listed["items"] if vm["name"] == task.name}
        return mine or {task.name: _show(task, task.name)}  # raises that there is none
    return _items(task)


def _items(task: ApiTask):
    """The VMs of the task that there are, by name, as they were last seen."""
    names = _found(task)["vms"]
    if len(names) <= FEW:
        return {name: _show(task, name) for name in names}
    listed = {vm["name"]: vm for vm in task.client.get("/vms")["items"]}
    return {name: listed[name] for name in names if name in listed}


def _runs(vm) -> bool:
    return vm["wanted_running"] and vm["power"] not in OFF and vm["state"] == "active"


def _is_stopped(vm) -> bool:
    if vm["state"] == "shelved":
        return True
    return vm["wanted_running"] is False and vm["power"] in OFF


def _switch(task: ApiTask, names) -> None:
    if task.asked["state"] == "running":
        task.change("start", "/vms:start", {"names": names}, task.wait_s)
        return
    how = {key: task.asked[key] for key in ("force", "with_users")}
    task.change("stop", "/vms:stop", {"names": names, **how}, task.wait_s)


def _delete(task: ApiTask) -> None:
    found = _found(task)
    for name in found["waiting"]:
        task.plan("cancel", name)
    if found["vms"]:
        taken = task.client.post("/vms:preview-delete", {"names": found["vms"]})
        volumes = [] if task.asked["keep_disks"] else taken["volumes"]
        for name in found["vms"]:
            task.plan("delete", name, details=volumes if len(found["vms"]) == 1 else ())
    task.show()
    if task.module.check_mode:
        task.result["changed"] = bool(task.actions)
        return
    if found["waiting"]:
        task.hear(task.send("cancel", "POST", "/queue:cancel", {"names": found["waiting"]}))
    if found["vms"]:
        how = {key: task.asked[key] for key in ("force", "keep_disks")}
        task.change("delete", "/vms:delete", {"names": found["vms"], **how}, task.wait_s)


def _found(task: ApiTask):
    """Which of the task's VMs there are, and which wait in the queue."""
    return task.client.post("/vms:find", task.document())


def _show(task: ApiTask, name: str):
    return task.client.get("/vms/" + quote(name, safe=""))


def main() -> None:
    """Run as a module."""
    module = AnsibleModule(
        argument_spec=arguments(
            state={
                "type": "str",
                "choices": ["present", "running", "stopped", "absent"],
                "default": "present",
            },
            restart={"type": "bool", "default": False},
            force={"type": "bool", "default": False},
            keep_disks={"type": "bool", "default": False},
            with_users={"type": "bool", "default": False},
            wait={"type": "bool", "default": True},
        ),
        required_if=[("state", "present", ["spec"])],
        supports_check_mode=True,
    )
    carry_out(module, "VM", work)


if __name__ == "__main__":
    main()
