"""Jobs over what a cluster holds: each is a function that takes a Spark session and paths."""
