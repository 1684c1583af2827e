"""Pages for files: VMs and pools, layouts, and what would come of a request."""

from __future__ import annotations

from vgpumgr.web.documents import DocumentPage
from vgpumgr.web.page import Page
from vgpumgr.web.questions import Choice, Question, at

DOCUMENTS = (
    DocumentPage(
        path="/apply",
        title="Apply a file",
        section="Apply",
        plan="vm.plan",
        template="plan/vms.html",
        apply="vm.apply",
        pools=("pool.plan", "plan/pools.html", "pool.apply"),
        intro="VMs, or pools of desktops, as YAML. Nothing is done before the plan is shown.",
    ),
    DocumentPage(
        path="/layouts/apply",
        title="Apply a Layout",
        section="Layouts",
        plan="layout.plan",
        template="plan/layouts.html",
        apply="layout.apply",
        intro="How GPUs are to be partitioned, as YAML.",
    ),
    DocumentPage(
        path="/explain",
        title="Explain a request",
        section="Capacity",
        plan="vm.explain",
        template="plan/explanation.html",
        button="Explain",
        intro="VMs as YAML: where each would go, or why it fits nowhere, and what would help.",
    ),
    DocumentPage(
        path="/takeover",
        title="Take over a VM",
        section="Take over",
        plan="takeover.plan",
        template="plan/takeover.html",
        button="Read it",
        of_many=True,
        choices=(
            Choice(
                *("manager", "What wrote it", "select"),
                options=(
                    ("proxmox", "Proxmox VE: qm config"),
                    ("libvirt", "libvirt: virsh dumpxml"),
                    ("ovf", "an OVF file"),
                ),
            ),
            Choice("names", "The file's name", "words", "100.conf"),
            Choice("gpus", "GPU parts there and here", "words", "nvidia-233=T4-8Q"),
            Choice("bridges", "Bridges there and here", "words", "vmbr0=br0"),
            Choice("pool", "Storage pool of its disks", "text"),
        ),
        intro="A VM of another manager, as that describes it: what would become of each key of it.",
    ),
    DocumentPage(
        path="/what-if",
        title="What if",
        section="Capacity",
        plan="simulate.run",
        template="plan/simulation.html",
        button="Work it out",
        choices=(
            Choice("add", "More VMs", "words", "A40-8Q=40 T4-4Q=10"),
            Choice("add_hosts", "More hosts", "words", "as one that is there: HOST×2, or BOARD×4"),
            Choice("fail", "Hosts that are lost", "words", "their names"),
        ),
        intro="What would fit on a changed fleet, and who would have no place. Nothing is done.",
    ),
)

PAGES: tuple[Page, ...] = ()
_TEXT = Choice("text", "Text", "area")
QUESTIONS = (
    Question(
        endpoint="vm.apply",
        text=lambda _: "Apply the file",
        button="Apply",
        back=at("/apply"),
        preview="vm.plan",
        choices=(
            _TEXT,
            Choice("partial", "Also if not all of it fits"),
            Choice("restart", "Restart VMs where a change needs it"),
        ),
    ),
    Question(
        endpoint="pool.apply",
        text=lambda _: "Apply the file",
        button="Apply",
        back=at("/apply"),
        preview="pool.plan",
        choices=(_TEXT,),
    ),
    Question(
        endpoint="layout.apply",
        text=lambda _: "Apply the Layout",
        button="Apply",
        back=at("/layouts"),
        preview="layout.plan",
        choices=(_TEXT,),
    ),
)
