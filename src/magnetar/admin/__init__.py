"""The REST edge: routes made from the table of operations, and the server that speaks it."""
