"""The simulated fleet: one long-lived process that *is* the hosts.

Three things differ from a real host and nothing else: the object under the helper, the
transport, and the libvirt driver.
"""
