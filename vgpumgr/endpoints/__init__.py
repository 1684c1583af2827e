"""What front ends can ask of a fleet, and the JSON of each answer: one definition for the command
line and the HTTP API.
"""
