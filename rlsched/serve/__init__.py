"""The decision service: decisions of trained policies over HTTP."""
