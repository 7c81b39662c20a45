"""Commands that end with the process that started them, here or on a host.

Input: a command line. Output: its exit status. Nothing that it started is left, however its controller ends.
"""
