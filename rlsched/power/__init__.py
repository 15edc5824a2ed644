"""Power of an episode: series of supply and carbon intensity."""
