"""RLlib's side of training: runners, batches, replay, learners."""
