"""A tiny trained pair, so that DSPINE can be served, tested and measured without downloading anything."""
