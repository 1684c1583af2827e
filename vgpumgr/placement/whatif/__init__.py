"""What would have to be otherwise for a refused request to fit: found by trying it. Pure."""

from vgpumgr.placement.whatif.alternative import Alternative, Kind
from vgpumgr.placement.whatif.easier import Easier, easier
from vgpumgr.placement.whatif.suggest import suggest

__all__ = ["Alternative", "Easier", "Kind", "easier", "suggest"]
