"""From a log, or a producer, to consumers: what carries out the decisions of `rules.dispatch`."""
