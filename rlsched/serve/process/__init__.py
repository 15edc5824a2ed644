"""The processes: launch of Ray Serve, supervision, the interim process, HAProxy and ports."""
