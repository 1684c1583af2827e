"""The composition root: settings, the ledger, how hosts are reached, the engine over them."""

from vgpumgr.app.composition import App
from vgpumgr.app.config import Config, load_config

__all__ = ["App", "Config", "load_config"]
