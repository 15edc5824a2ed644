"""Decisions on requests: arrays of jobs, snapshots of the core, policies, and the batching queue."""
