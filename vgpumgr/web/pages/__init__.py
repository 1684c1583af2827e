"""The pages, a file per subject, and the questions before their changes."""

from vgpumgr.web.page import Page
from vgpumgr.web.pages import access, consoles, gpus, hosts, operations, vms
from vgpumgr.web.questions import Question

_SUBJECTS = (hosts, gpus, vms, consoles, operations, access)
PAGES: tuple[Page, ...] = tuple(page for each in _SUBJECTS for page in each.PAGES)
QUESTIONS: dict[str, Question] = {
    question.endpoint: question for each in _SUBJECTS for question in each.QUESTIONS
}
