"""Sweeps: many trainings, or plays of one policy, under settings that are searched; on Ray Tune."""
