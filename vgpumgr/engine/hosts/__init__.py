"""Hosts' life in the fleet: enrolled, cordoned, drained, in maintenance, evacuated, removed."""
