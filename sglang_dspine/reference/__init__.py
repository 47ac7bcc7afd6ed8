"""The whole DSpine drafter in plain PyTorch: the oracle every faster form is compared with.

Source: "Draft in Parallel, Condition Through Depth: Adjacent Causal Injection for Speculative Decoding".
Written to be read, not to be fast: no cache kept between rounds, no kernels, no SGLang.

| symbol | meaning                                   | symbol | meaning                              |
|--------|-------------------------------------------|--------|--------------------------------------|
| N      | independent blocks drafted at once        | H      | hidden size of target and draft      |
| S      | context positions (padded to the longest) | L      | draft layers                         |
| B      | block rows; row 0 is the anchor           | r, m   | transfer rank, message size          |
| R      | proposals, B - 1                          | K      | candidates per proposal              |
| V      | vocabulary                                | W      | verify width, proposals + 1          |

Data flows down this list; a file imports only from files above it.

    arithmetic   which dtype and which order sums are taken in
    rope         rotary angles, YaRN included
    backbone     causal draft layers over an explicit context
    bridge       adjacent injection, after every layer
    candidates   the K best tokens of each row
    table        transition table, direct form, and its serial counterpart
    low_rank     the same table without its refined states
    walk         greedy and sampled paths through the table
    accept       greedy and rejection-sampling accept rules
    drafter      all of it, from captured target layers to a proposal
"""

from .accept import Accepted, greedy_accept, rejection_accept
from .arithmetic import DEFAULT, FIXED_FLOAT64, FLOAT64, Arithmetic
from .bridge import Bridge, bridge_write, code_features, features
from .candidates import top_candidates
from .drafter import Drafter, Proposal
from .low_rank import LowRank, transition_table_low_rank
from .table import refine_serially, refined_states, transition_table_direct
from .walk import Walk, greedy_walk, sampled_walk

__all__ = [
    "DEFAULT",
    "FIXED_FLOAT64",
    "FLOAT64",
    "Accepted",
    "Arithmetic",
    "Bridge",
    "Drafter",
    "LowRank",
    "Proposal",
    "Walk",
    "bridge_write",
    "code_features",
    "features",
    "greedy_accept",
    "greedy_walk",
    "refine_serially",
    "refined_states",
    "rejection_accept",
    "sampled_walk",
    "top_candidates",
    "transition_table_direct",
    "transition_table_low_rank",
]
