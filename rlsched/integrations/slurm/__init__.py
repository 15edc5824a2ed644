"""Advice for a cluster that Slurm schedules; nothing here runs a command or changes Slurm.

`command_output` reads what squeue and sinfo print as JSON. `queue_reader` and `node_reader` turn it into jobs
and nodes, and `cluster_view` into a decision request. `policies` asks a policy in this process, or a decision
service. `advice` writes the result as a table or JSON, `scontrol` as commands that an operator may run.
"""
