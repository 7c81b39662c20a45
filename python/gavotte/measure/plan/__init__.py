"""Plan measurements: methods, rounds of pairs, links that they share, limits of cost. No I/O, no state."""
