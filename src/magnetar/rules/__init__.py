"""Pure decisions: values in, a value out. The broker and the client carry them out."""
