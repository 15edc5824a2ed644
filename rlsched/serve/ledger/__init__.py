"""The ledger: counters and recent decisions of all replicas."""
