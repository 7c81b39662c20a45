"""Show the main job end to end: measure an emulated cloud, place a real application's traffic, run it, compare."""

from gavotte.demo.story import DemoResult, demo

__all__ = ["DemoResult", "demo"]
