"""Where jobs come from."""
