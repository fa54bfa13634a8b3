"""The general rules of the diagnosis, one file for each kind of evidence."""
