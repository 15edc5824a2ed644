"""Beside Slurm: what squeue and sinfo say as a cluster to decide about, decisions as commands of scontrol.

`answers` reads what both print as JSON, `jobs` and `nodes` say what it means, `mapping` makes a request of
it, `remote` asks a service with it, `commands` writes what an operator may run. Nothing here runs anything.
"""
