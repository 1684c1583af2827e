"""Pages of consoles: a VM's screen and serial line, and the desktop of a pool."""

from __future__ import annotations

from vgpumgr.web.page import Page, PageRead, named
from vgpumgr.web.questions import Question

PAGES = (
    Page(
        path="/vms/{vm}/screen",
        title="Screen",
        section="VMs",
        template="screen.html",
        reads=(PageRead("vm", "vm.show", named(name="vm")),),
        live=False,
    ),
    Page(
        path="/vms/{vm}/serial",
        title="Serial console",
        section="VMs",
        template="serial.html",
        reads=(PageRead("vm", "vm.show", named(name="vm")),),
        live=False,
    ),
)

QUESTIONS: tuple[Question, ...] = ()
