"""Measurements of many hosts by few pairs, compared with the truth and with other methods."""
