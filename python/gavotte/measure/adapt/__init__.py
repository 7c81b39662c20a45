"""What a measurement learns from answers, and what it measures next because of them. No clock, no input, no output."""
