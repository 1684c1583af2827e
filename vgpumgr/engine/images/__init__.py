"""Images in versions: what disks name, what an import will do, who uses a copy."""
