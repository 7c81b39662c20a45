"""The cost of the readers of `gavotte profile`, and the errors of its predictors."""
