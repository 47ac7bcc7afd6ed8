"""Triton kernels of the draft round, a folder each: `naive.py` in plain torch, `kernel.py`, and a wrapper that chooses.

On a CPU the naive forms run. `DSPINE_KERNELS=0` makes a GPU run them too, to time one against the other.
"""
