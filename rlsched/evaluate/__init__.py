"""Paired evaluation and its statistics."""
