"""Connection tickets: who asks for one, and the desk of `serve` that gives them."""
