"""Pictures and the HTML report."""
