"""Pages for files: VMs and pools, layouts, and what would come of a request."""

from __future__ import annotations

from vgpumgr.web.documents import DocumentPage
from vgpumgr.web.questions import Question, at

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
)

PAGES = ()
QUESTIONS = (
    Question(endpoint="vm.apply", text=lambda _: "Apply the file", button="Apply", back=at("/vms")),
    Question(
        endpoint="pool.apply", text=lambda _: "Apply the file", button="Apply", back=at("/pools")
    ),
    Question(
        endpoint="layout.apply",
        text=lambda _: "Apply the Layout",
        button="Apply",
        back=at("/layouts"),
    ),
)
