"""Pages of access: who may do what, and the own account."""

from __future__ import annotations

from vgpumgr.web.page import Page, PageRead

PAGES = (
    Page(
        path="/me",
        title="You",
        template="me.html",
        reads=(PageRead("me", "auth.whoami"), PageRead("sessions", "auth.session.list")),
    ),
)

QUESTIONS = ()
