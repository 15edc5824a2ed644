"""Workloads: traces and models that jobs are drawn from."""
