"""Commands that are started and cancelled from pages: what is offered, and what runs.

Input: what the server was given, and the name of an offer. Output: running commands of `gavotte` with what they print.
"""
