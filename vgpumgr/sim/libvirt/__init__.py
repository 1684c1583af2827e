"""libvirt's test driver, refusing what libvirt, QEMU and VFIO would."""
