"""The RLlib face: networks, algorithms, the training run."""
