"""What others made, brought under management as it is: found, described, claimed, marked.

Nothing is imported here: the definition of an adopted VM (``spec``) is needed below the rest.
"""
