"""Learners and engines of the algorithms; they import ray or torch."""
