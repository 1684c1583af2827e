"""What a probe reads, part by part."""
