"""Parts of ``benchmarks.placement.repack``."""
