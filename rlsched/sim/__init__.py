"""The compiled simulator core: state, events, priorities, backfilling, decisions, observations, metrics.

A scenario with a planning horizon (`decision.horizon`) is tick-driven: time goes tick by tick, and jobs are
placed on a grid of ticks x units. All others are event-driven: time goes from event to event.
"""
