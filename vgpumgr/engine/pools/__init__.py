"""VDI pools: requested, worked on by the controller, and assigned to users."""
