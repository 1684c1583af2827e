"""What Linux itself shows: files with behaviour, PCI, IOMMU groups, SR-IOV, mdev, memory."""
