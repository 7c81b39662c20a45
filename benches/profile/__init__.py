"""What the readers of `gavotte profile` cost, and how well its predictors do."""
