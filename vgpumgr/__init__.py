"""vgpumgr: GPUs for KVM virtual machines across a fleet of libvirt hosts."""

import os

# Placement's matrices are small: on several threads BLAS spins more than it works, and a busy
# machine makes it ten times worse. NumPy reads this when it is first imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

__version__ = "0.1.0"
API_VERSION = "vgpumgr/v1"
