"""What a user touches: the Python API, the command line, explain and bench."""
