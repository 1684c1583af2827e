"""Defragmentation: who may move where, the moves that reach a goal, and whether they will do."""

from vgpumgr.engine.defrag.finding import DefragPlan, Wanted, find

__all__ = ["DefragPlan", "Wanted", "find"]
