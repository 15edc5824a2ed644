"""The compiled simulator core: state, events, priorities, backfilling, decisions, observations, metrics."""
