"""Journalled tasks: begun, run step by step, gone on with after a crash, taken back."""
