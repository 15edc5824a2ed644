"""Settings of a training run, and their checks."""
