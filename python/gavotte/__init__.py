"""Gavotte makes distributed applications faster on a network their owner can neither see nor control.

What the command line can do, this package can: each verb is one function, in the module of its name.
"""
