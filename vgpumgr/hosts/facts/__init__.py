"""A probe's answer and libvirt's facts → HostFacts. Pure."""
