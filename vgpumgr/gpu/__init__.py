"""One small file per *framework*, a way of giving a VM a GPU.

Every framework has one life cycle: ``offers`` says what a GPU can make, ``realise`` makes it
on the host, ``look`` reads it back, ``describe`` gives the hostdev, ``release`` takes it back.
They choose helper verbs; the mechanics live in :mod:`vgpumgr.helper`.
"""
