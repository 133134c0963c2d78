"""Files in the form of sqllogictest, run as views: `python -m tests.slt.runner FILE...`."""
