"""Learning algorithms, one module each."""
