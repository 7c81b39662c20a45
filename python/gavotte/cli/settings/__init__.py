"""Options that files set: `gavotte.toml` of a folder, and the user's own.

`files` finds and trusts them, `rules` says which options they may set, `reading` turns their keys into values of
options, and `applying` hands these to a command.
"""
