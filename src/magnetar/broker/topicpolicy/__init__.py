"""Where the policies of single topics are kept: one contract, two backends, and who chooses."""
