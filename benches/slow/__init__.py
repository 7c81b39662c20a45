"""Benchmark of `gavotte hosts slow`: detection, false alarms and rounds on simulated clouds."""
