"""Reads capture files frame by frame, and counts each payload byte of them once."""
