"""The scalable plane: controllers of topics, sessions that watch layouts, groups of consumers."""
