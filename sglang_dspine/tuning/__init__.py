"""The width tuner: measure how long a round of (batch, width) takes, learn what positions are accepted, choose widths.

`measure` needs a running server (or `simulated`), the rest does not: `combine` can be repeated with another acceptance
profile on the stored measurements.
"""
