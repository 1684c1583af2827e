"""What a controller can ask for, one file a subject; ``dispatch.py`` lists them all."""
