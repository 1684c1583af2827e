"""One file a noun or whole-file verb; ``root.py`` lists them and imports one when it is called."""
