"""Benchmarks of this project and for its users; one noun a folder."""
