"""The queue: who may wait, who starts, who is stopped for whom, who has ended. Pure.

``asking`` and ``entering`` are what an application needs, ``deciding`` and ``ending`` what the
controller does.
"""
