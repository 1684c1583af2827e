"""The commands, a file for each noun or whole-file verb; ``root.py`` imports one when called."""
