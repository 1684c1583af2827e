"""What is better among placements that fit."""
