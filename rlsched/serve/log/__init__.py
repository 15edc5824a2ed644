"""The service log: a journal of all states and a dataset for each policy version."""
