"""Connections to other schedulers; Slurm is the only one so far."""
