"""The web page: recent decisions of a cluster as charts and tables."""
