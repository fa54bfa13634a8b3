"""The commands of the course. Their helps and all that they say is in the catalogue; argparse itself speaks English."""
