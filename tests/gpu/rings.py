"""ReplaySSM through SGLang's verify kernel and our fold, against the sequential recurrence in float64.

    python -m tests.gpu.rings OUT

On a CUDA GPU, 27B head shape. For each state dtype and width, each accept length 1 .. width: four requests verify and
commit ROUNDS blocks, accepting that many rows each time; the last table row accepts another length each round. Error:
the state's relative distance from float64 on the same inputs, beside that of SGLang's own sequential kernel over the
accepted rows, with a state of the same dtype. Then a NaN is put into rejected rows, with our fold and with SGLang's.
Without a GPU, under TRITON_INTERPRET=1: one request, two heads, two rounds, float16 inputs and rings.
Results: OUT/rings.json; exit status 0 if no error exceeds twice the sequential kernel's (FP32 states: plus 2e-3, since
SGLang's verify multiplies in TF32) and our fold stays finite.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from sglang_dspine.kernels.ring_fold import commit_rings
from sglang_dspine.kernels.ring_fold.naive import fold_naive, recur

GPU = torch.cuda.is_available()
DEVICE, KIND = ("cuda", torch.bfloat16) if GPU else ("cpu", torch.float16)  # the interpreter multiplies no BF16
N, H, HV, ROUNDS = (4, 16, 48, 6) if GPU else (1, 1, 2, 2)
K, V, RING = 128, 128, 16
WIDTHS = (2, 4, 8, 12, 16)
A_LOG = torch.linspace(-3.0, 1.0, HV, device=DEVICE)
DT_BIAS = torch.linspace(-2.0, 1.0, HV, device=DEVICE)


class Target:
    """One layer's pool and inputs for N requests."""

    def __init__(self, dtype: torch.dtype, seed: int) -> None:
        self.random = torch.Generator(DEVICE).manual_seed(seed)
        state = 0.1 * self.normal(N, HV, V, K)
        self.states = state.to(dtype)[None].contiguous()  # one layer
        self.exact = self.states[0].double()
        self.sequential = self.states[0].clone()
        ring = lambda *shape, kind=KIND: torch.zeros(1, N, *shape, dtype=kind, device=DEVICE)  # noqa: E731
        self.d, self.k, self.g = ring(HV, RING, V), ring(H, RING, K), ring(HV, RING, kind=torch.float32)
        self.d_low, self.k_low = ring(HV, RING, V), ring(H, RING, K)
        self.lengths, self.bases = (torch.zeros(N, dtype=torch.int32, device=DEVICE) for _ in range(2))
        self.flags = torch.zeros(N, dtype=torch.int8, device=DEVICE)
        self.slots = torch.arange(N, device=DEVICE)

    def normal(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=self.random, device=DEVICE)

    def verify(self, width: int) -> dict[str, torch.Tensor]:
        """Draw a block, and let SGLang's kernel write it into the rings."""
        from sglang.kernels.ops.attention.linear.gdn_replayssm_spec_decode import gdn_replayssm_spec_decode

        rows = N * width
        block = {name: self.normal(rows, *shape).to(KIND) for name, shape in
                 (("q", (H, K)), ("k", (H, K)), ("v", (HV, V)), ("a", (HV,)), ("b", (HV,)))}  # fmt: skip
        gdn_replayssm_spec_decode(
            **block, A_log=A_LOG, dt_bias=DT_BIAS, checkpoint_state=self.states[0], d_cache=self.d[0],
            k_cache=self.k[0], g_cache=self.g[0], rawv_cache=self.d_low[0], rawk_cache=self.k_low[0], beta_cache=None,
            out=torch.empty(rows, HV, V, dtype=KIND, device=DEVICE),
            query_start_loc=torch.arange(0, rows + 1, width, device=DEVICE), ssm_state_indices=self.slots,
            replay_indices=self.slots, write_pos=self.lengths, cache_base=self.bases, is_flush=self.flags,
            max_cache_len=RING, max_spec_len=max(WIDTHS), null_block_id=-1, launch_mode="verify",
        )  # fmt: skip
        return block

    def commit(self, accepted: int, fold=commit_rings) -> None:
        from sglang.kernels.ops.attention.linear.gdn_replayssm_spec_decode import commit_gdn_replayssm_spec

        lens = torch.full((N,), accepted, dtype=torch.int32, device=DEVICE)
        commit_gdn_replayssm_spec(
            self.lengths, self.bases, self.flags, lens, self.slots, RING, max(WIDTHS),
            fold_every_commit=self.states.dtype != torch.float32, null_block_id=-1,
        )  # fmt: skip
        fold(
            checkpoint_state=self.states, d_cache=self.d, k_cache=self.k, g_cache=self.g,
            d_residual_cache=self.d_low, k_residual_cache=self.k_low, state_batch_indices=self.slots,
            replay_indices=self.slots, write_pos=self.lengths, cache_base=self.bases, is_flush=self.flags,
            accept_lens=lens, null_block_id=-1,
        )  # fmt: skip

    def follow(self, block: dict[str, torch.Tensor], width: int, accepted: int) -> None:
        """The same accepted rows by the definition in float64 and by SGLang's sequential kernel."""
        from sglang.kernels.ops.attention.linear.fused_sigmoid_gating_recurrent import (
            fused_sigmoid_gating_delta_rule_update,
        )

        x = {name: value.view(N, width, *value.shape[1:])[:, :accepted] for name, value in block.items()}
        for i in range(N):
            k = x["k"][i].double()
            k = k / (k.square().sum(-1, keepdim=True) + 1e-6).sqrt()
            decay = -A_LOG.double().exp() * torch.nn.functional.softplus(x["a"][i].double() + DT_BIAS)
            turned = (t.transpose(0, 1) for t in (k.repeat_interleave(HV // H, 1), x["v"][i].double(), decay,
                                                  torch.sigmoid(x["b"][i].double())))  # fmt: skip
            self.exact[i] = recur(self.exact[i], *turned)[0][-1]
        flat = {name: value.reshape(1, N * accepted, *value.shape[2:]).contiguous() for name, value in x.items()}
        fused_sigmoid_gating_delta_rule_update(
            A_log=A_LOG, dt_bias=DT_BIAS, softplus_beta=1.0, softplus_threshold=20.0, **flat,
            initial_state_source=self.sequential, initial_state_indices=self.slots.int(),
            use_qk_l2norm_in_kernel=True, cu_seqlens=torch.arange(0, N * accepted + 1, accepted, device=DEVICE).int(),
        )  # fmt: skip

    def now(self) -> torch.Tensor:
        """State of every request with the history that is not folded yet. [N, HV, V, K] float64"""
        found = self.states[0].double()
        for i in range(N):
            place = (int(self.bases[i]) + torch.arange(int(self.lengths[i]), device=DEVICE)) % RING
            d, k = self.d[0, i][:, place].double(), self.k[0, i][:, place].double()
            d, k = d + self.d_low[0, i][:, place].double(), k + self.k_low[0, i][:, place].double()
            found[i] = fold_naive(found[i], d, k, self.g[0, i][:, place].double())
        return found


def error(found: torch.Tensor, exact: torch.Tensor) -> float:
    return float((found.double() - exact).norm() / exact.norm())


def run(dtype: torch.dtype, width: int, lengths: list[int]) -> dict:
    target = Target(dtype, seed=100 * width + lengths[0])
    for accepted in lengths:
        target.follow(target.verify(width), width, accepted)
        target.commit(accepted)
    return {"ring": error(target.now(), target.exact), "sequential": error(target.sequential, target.exact)}


def poisoned(dtype: torch.dtype, fold) -> bool:
    """Is any state not finite after a NaN in rejected rows?"""
    target = Target(dtype, seed=1)
    target.verify(8)
    for ring in (target.d, target.k):
        ring[:, :, :, 3:] = float("nan")  # rows 3.. are rejected
    target.lengths.fill_(0)
    target.flags.fill_(0)
    target.commit(3, fold)
    target.flags.fill_(1)
    target.commit(0, fold)
    return not bool(target.states.isfinite().all())


def main() -> int:
    from sglang.kernels.ops.attention.linear.gdn_replayssm_spec_decode import commit_gdn_replayssm_circular

    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    rows, failed = [], []
    for dtype in (torch.bfloat16, torch.float32):
        name = str(dtype).removeprefix("torch.")
        for width in WIDTHS:
            cases = {str(a): [a] * ROUNDS for a in range(1, width + 1)}
            cases["mixed"] = [1 + (7 * i + width) % width for i in range(2 * ROUNDS)]
            found = {label: run(dtype, width, lengths) for label, lengths in cases.items()}
            rows += [{"state": name, "width": width, "accepted": label, **errors} for label, errors in found.items()]
            more = 0 if dtype == torch.bfloat16 else 2e-3
            limit = {label: 2 * errors["sequential"] + more for label, errors in found.items()}
            failed += [f"{name} width {width} accepted {a}" for a, e in found.items() if not e["ring"] <= limit[a]]
            worst = max(found, key=lambda label: found[label]["ring"])
            print(
                f"{name} width {width:2d}: worst error {found[worst]['ring']:.2e} (accepted {worst}), sequential "
                f"kernel {found[worst]['sequential']:.2e}; mixed {found['mixed']['ring']:.2e}",
                flush=True,
            )
    nan = {f"{who} {name}": poisoned(dtype, fold) for who, fold in (("ours", commit_rings),
           ("sglang", commit_gdn_replayssm_circular)) for name, dtype in (("bf16", torch.bfloat16),
           ("fp32", torch.float32))}  # fmt: skip
    print(f"state poisoned by a NaN in rejected rows: {nan}", flush=True)
    (out / "rings.json").write_text(json.dumps({"rows": rows, "poisoned": nan, "failed": failed}, indent=1))
    print(f"{len(rows)} cases, {len(failed)} beyond the limit: {failed[:5]}", flush=True)
    return 1 if failed or nan["ours bf16"] or nan["ours fp32"] else 0


if __name__ == "__main__":
    sys.exit(main())
