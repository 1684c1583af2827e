"""How vGPUs lie on one GPU: counted slots, fixed starts, or the MIG grid. Immutable values."""

from vgpumgr.placement.geometry.grid import Grid, grid_of
from vgpumgr.placement.geometry.masks import mask_of, slots_of
from vgpumgr.placement.geometry.mig import Instance
from vgpumgr.placement.geometry.spot import Spot
from vgpumgr.placement.geometry.starts import ShapeBook, Shapes

__all__ = ["Grid", "Instance", "ShapeBook", "Shapes", "Spot", "grid_of", "mask_of", "slots_of"]
