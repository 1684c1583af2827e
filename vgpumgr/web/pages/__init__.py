"""The pages, a file per subject, and the questions before their changes."""

from vgpumgr.web.page import Page
from vgpumgr.web.pages import (
    access,
    backups,
    balance,
    consoles,
    costs,
    files,
    fleet,
    gpus,
    hosts,
    operations,
    pools,
    queue,
    secrets,
    trail,
    vms,
    webhooks,
)
from vgpumgr.web.questions import Question

_SUBJECTS = (
    *(files, hosts, vms, consoles, pools, queue, fleet, operations, access, secrets, webhooks),
    *(gpus, trail, backups, costs, balance),
)
PAGES: tuple[Page, ...] = tuple(page for each in _SUBJECTS for page in each.PAGES)
QUESTIONS: dict[str, Question] = {
    question.endpoint: question for each in _SUBJECTS for question in each.QUESTIONS
}
DOCUMENTS = files.DOCUMENTS
