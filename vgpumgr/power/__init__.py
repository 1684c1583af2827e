"""Power: the tree of budgets, and what is capped when one of them runs out. Pure."""
