"""Start a job in the order of ranks that its messages want: measure, profile and place what is missing, then run it."""
