"""Between a pool's rows, their VMs and the pool controller. Pure."""

from vgpumgr.engine.pooling.acting import taken
from vgpumgr.engine.pooling.looking import Seen, doubted, failed, looked
from vgpumgr.engine.pooling.making import desktop_spec
from vgpumgr.engine.pooling.room import Room
from vgpumgr.engine.pooling.viewing import view_of

__all__ = ["Room", "Seen", "desktop_spec", "doubted", "failed", "looked", "taken", "view_of"]
