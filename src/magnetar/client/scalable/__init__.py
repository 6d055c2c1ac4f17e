"""Scalable topics: producers and consumers over segments that come and go."""
