"""VDI pools: asked for, worked, and given to users."""

from vgpumgr.engine.use_cases.pool.asking import Wish, plan, put
from vgpumgr.engine.use_cases.pool.attending import heartbeat, logged_in, part, to_ask
from vgpumgr.engine.use_cases.pool.changing import drain, leave, push_image, scale
from vgpumgr.engine.use_cases.pool.giving import (
    Given,
    assign,
    desktop_of,
    release,
    withdraw,
)
from vgpumgr.engine.use_cases.pool.guarding import refuse_desktops, refuse_names
from vgpumgr.engine.use_cases.pool.turn import Outlook, Worked, outlook, step

__all__ = [
    "Given",
    "Outlook",
    "Wish",
    "Worked",
    "assign",
    "desktop_of",
    "drain",
    "heartbeat",
    "leave",
    "logged_in",
    "outlook",
    "part",
    "plan",
    "push_image",
    "put",
    "refuse_desktops",
    "refuse_names",
    "release",
    "scale",
    "step",
    "to_ask",
    "withdraw",
]
