"""The Gymnasium face of the simulator."""
