"""Where topic policies are kept: one contract, two backends, and the choice between them."""
