"""One module per metadata store; only the application names them."""
