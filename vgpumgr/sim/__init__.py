"""The simulated fleet: one long-lived process that *is* the hosts.

Three things differ from a real host and nothing else: the object under the helper
(``sim_system.py``), the transport (``transport/``), and the libvirt driver (``libvirt/``).
Under them a kernel with behaviour: ``boards/`` and ``linux/``, NVIDIA's resource manager
(``nvidia/``), and the vendors' ``drivers/``, put together in ``machine/``, with NVML
(``nvml/``) over it.
"""

from __future__ import annotations
