"""The REST edge: a table of routes over the broker's api, and the server that speaks it."""
