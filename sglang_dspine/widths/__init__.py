"""Verify widths: how many rows of a block a batch of n requests drafts and verifies. Plain Python, no torch.

A table says it for each batch size (`table`), is read strictly (`parse`) and found where it belongs (`find`); a policy
(`policy`, `adaptive`) chooses with it round by round. Width 1 is plain decode: nothing is drafted.
"""
