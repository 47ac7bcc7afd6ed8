"""Causal depthwise convolution with a state, as Qwen3.5 runs it before the delta rule.

weight [C, W]           one filter per channel
states [slots, C, W-1]  the last W-1 inputs of each request
"""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F


def filter_rows(history, x, weight, bias, activation):
    """history [B, C, W-1], x [B, C, T] -> y [B, C, T] and the padded input [B, C, W-1+T].

    Taps are added from the oldest to the newest, so that a row's result does not depend on T or B.
    """
    width, steps = weight.shape[-1], x.shape[-1]
    padded = torch.cat([history.to(x.dtype), x], -1)
    taps = weight.float()
    y = padded[..., :steps].float() * taps[:, 0, None]
    for tap in range(1, width):
        y += padded[..., tap : tap + steps].float() * taps[:, tap, None]
    if bias is not None:
        y += bias.float()[:, None]
    if activation in ("silu", "swish", True):
        y = F.silu(y.double())  # see gating.py
    return y.to(x.dtype), padded


def causal_conv1d_fn_cpu(
    x, weight, bias=None, activation=None, conv_states=None, has_initial_state=None, cache_indices=None,
    query_start_loc=None, seq_lens_cpu=None,
):  # fmt: skip
    """Prefill: x [C, T], requests packed -> y [C, T]; each request's state becomes its last W-1 inputs."""
    keep = weight.shape[-1] - 1
    out, starts = torch.zeros_like(x), query_start_loc.tolist()
    for i, (first, last) in enumerate(pairwise(starts)):
        slot = int(cache_indices[i])
        if first == last or slot < 0:
            continue
        history = conv_states[slot] if bool(has_initial_state[i]) else torch.zeros_like(conv_states[slot])
        y, padded = filter_rows(history[None], x[None, :, first:last], weight, bias, activation)
        out[:, first:last] = y[0]
        conv_states[slot] = padded[0, :, -keep:].to(conv_states.dtype)
    return out


def causal_conv1d_update_cpu(
    x, conv_state, weight, bias=None, activation=None, conv_state_indices=None, intermediate_conv_window=None,
    intermediate_state_indices=None, retrieve_next_token=None, retrieve_next_sibling=None,
    retrieve_parent_token=None,
):  # fmt: skip
    """Decode (x [B, C]) or verify (x [B, C, T]).

    Verify leaves the states alone: `intermediate_conv_window` [requests, T, C, W-1] receives the state after
    each row, from which the accepted one is committed later.
    """
    if retrieve_next_token is not None:
        raise NotImplementedError("the CPU stand-in verifies chains, not draft trees")
    rows = x[:, :, None] if x.dim() == 2 else x
    keep, live = weight.shape[-1] - 1, conv_state_indices >= 0
    slots = conv_state_indices[live].long()
    y, padded = filter_rows(conv_state[slots], rows[live], weight, bias, activation)
    out = torch.zeros_like(rows)
    out[live] = y
    if intermediate_conv_window is None:
        conv_state[slots] = padded[..., -keep:].to(conv_state.dtype)
    else:
        windows = padded[..., 1:].unfold(-1, keep, 1).permute(0, 2, 1, 3)  # [B, T, C, W-1]
        into = intermediate_state_indices[live].long()
        intermediate_conv_window[into, : windows.shape[1]] = windows.to(intermediate_conv_window.dtype)
    return out[:, :, 0] if x.dim() == 2 else out
