"""Sweeps: many trainings, or evaluations of one policy, under searched settings; on Ray Tune."""
