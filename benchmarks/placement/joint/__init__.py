"""Orders placed as a whole, beside what an exact solver finds."""
