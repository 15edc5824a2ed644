"""The decision service: what a trained policy would do now, asked over HTTP."""
