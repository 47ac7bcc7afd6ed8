"""How much a drafter proposes otherwise after a conversion: both, through the reference, behind the same anchors.

captures   what a target left behind while it wrote: captured layers, its text, embedding and head
record     captures of a target that transformers can run
draft      proposals of one checkpoint behind every anchor, a layer in memory at a time
compare    candidates, proposals and accepted lengths of two checkpoints, with a bootstrap interval
report     the same for people, and as JSON
"""
