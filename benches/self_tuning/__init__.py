"""Programs whose collectives are tuned while they run, compared with the library's own ways and with trees planned before."""
