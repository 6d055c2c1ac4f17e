"""One row for each admin operation and each policy; routes, clients, commands and pages derive."""
