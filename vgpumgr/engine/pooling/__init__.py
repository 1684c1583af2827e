"""Between a pool's rows, their VMs and the pool controller. Pure."""

from vgpumgr.engine.pooling.acting import taken
from vgpumgr.engine.pooling.floating import floating_desktops
from vgpumgr.engine.pooling.looking import Seen, doubted, failed, looked, not_updated
from vgpumgr.engine.pooling.making import desktop_spec, image_of
from vgpumgr.engine.pooling.room import Room
from vgpumgr.engine.pooling.sessions import AtWork, at_work, named
from vgpumgr.engine.pooling.viewing import view_of

__all__ = [
    "AtWork",
    "Room",
    "Seen",
    "at_work",
    "desktop_spec",
    "doubted",
    "failed",
    "floating_desktops",
    "image_of",
    "looked",
    "named",
    "not_updated",
    "taken",
    "view_of",
]
