"""Reservations: a decision as the records, tasks and steps that one transaction writes."""
