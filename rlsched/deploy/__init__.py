"""Cluster files, checked without a cluster: `ray up`, Kubernetes, Slurm, Docker and compose."""
