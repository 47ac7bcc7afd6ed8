"""Rows of the target's output head as numbers, read in the layout the head is stored in."""
