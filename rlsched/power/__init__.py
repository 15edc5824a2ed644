"""Where power comes from: series of supply and carbon intensity, drawn per episode."""
