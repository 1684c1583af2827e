"""The use cases as methods of a session, by subject; `Engine` has them all."""
