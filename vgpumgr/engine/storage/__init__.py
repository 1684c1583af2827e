"""Kinds of storage pools: what each can, a file each, with one life cycle."""
