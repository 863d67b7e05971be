"""Running, comparing and drawing: what the command line and the Python functions share."""
