"""What hardware a simulated host has: boards of the catalogue, and where they sit."""
