"""Open MPI's defaults for collectives compared with the rules that `gavotte collective --settings` writes."""
