"""Experiments on placement: public traces, baselines, bounds, an independent checker."""

import os

# Small products only: threads of BLAS would fight with the worker processes.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
