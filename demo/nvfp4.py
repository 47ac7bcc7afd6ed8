"""The demo target in NVFP4, as ModelOpt writes it: `python -m demo.nvfp4 OUT`, CPU, about a minute.

    OUT/nvfp4/{target,draft}    linears and output head in NVFP4 with an FP8 KV cache, for a GPU server
    OUT/plain/{target,draft}    the same numbers as float32, for a CPU (`python -m demo.evaluate --pair OUT/plain`)

Needs NVIDIA's quantiser beside the development environment: `pip install nvidia-modelopt==0.47.0`. 16 numbers share an
e4m3 scale, a tensor one float32 scale; linears that SGLang fuses share theirs, since it keeps the largest for all.
"""

import argparse
import json
import shutil
from collections.abc import Iterable
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from sglang_dspine.kernels.head_rows.form import E2M1

from .hybrid import load_target
from .text import held_out_prompts, stdlib_path

HERE = Path(__file__).parent
BLOCK = 16
FUSED = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"), ("in_proj_qkv", "in_proj_z"))
BESIDE = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json")


def settings(mtq: Any) -> dict[str, Any]:
    """ModelOpt's NVFP4 for linears, and its output head and FP8 KV cache, which it leaves alone by itself."""
    config: dict[str, Any] = deepcopy(mtq.NVFP4_DEFAULT_CFG)
    form = {"num_bits": (2, 1), "block_sizes": {-1: BLOCK, "type": "dynamic", "scale_bits": (4, 3)}}
    config["quant_cfg"] += [
        {"quantizer_name": f"lm_head.{kind}_quantizer", "cfg": form, "enable": True} for kind in ("weight", "input")
    ]
    config["quant_cfg"] += deepcopy(mtq.FP8_KV_CFG["quant_cfg"])
    return config


def share_scales(model: torch.nn.Module) -> None:
    """Give linears that are served as one the largest of their calibrated ranges."""
    for module in model.modules():
        for names in FUSED:
            parts = [getattr(module, name) for name in names if hasattr(module, name)]
            for kind in ("weight_quantizer", "input_quantizer"):
                quantizers = [getattr(part, kind) for part in parts]
                if quantizers:
                    largest = torch.stack([q.amax.reshape(()) for q in quantizers]).max()
                    for q in quantizers:
                        q.amax = largest.clone()


def quantise(folder: Path, texts: Tensor) -> None:
    """Calibrate on texts [B, L] of byte ids and write the checkpoint."""
    import modelopt.torch.quantization as mtq
    from modelopt.torch.export import export_hf_checkpoint

    model = load_target(HERE / "target").to(torch.bfloat16)
    with torch.no_grad():
        model = mtq.quantize(model, settings(mtq), lambda m: m(texts))
        share_scales(model)
        export_hf_checkpoint(model, export_dir=folder)
    copy_beside(folder)


def dequantised(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Every tensor as float32 numbers: packed weights [O, I/2], low nibble first, scales [O, I/16]."""
    plain = {}
    for name, tensor in tensors.items():
        if name.endswith((".weight_scale", ".weight_scale_2", ".input_scale", ".k_scale", ".v_scale")):
            continue
        if tensor.dtype == torch.uint8:
            nibbles = torch.stack([tensor & 15, tensor >> 4], dim=-1).flatten(1).long()
            values = torch.tensor(E2M1)[nibbles & 7] * torch.where(nibbles > 7, -1.0, 1.0)
            scale = tensors[f"{name}_scale"].float().repeat_interleave(BLOCK, dim=1)
            tensor = values * scale * tensors[f"{name}_scale_2"]
        plain[name] = tensor.float()
    return plain


def write_plain(source: Path, folder: Path) -> None:
    """`source` with its numbers spelled out."""
    folder.mkdir(parents=True)
    save_file(dequantised(load_file(source / "model.safetensors")), folder / "model.safetensors", {"format": "pt"})
    config = json.loads((HERE / "target" / "config.json").read_text()) | {"dtype": "float32"}
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    copy_beside(folder)


def copy_beside(folder: Path, names: Iterable[str] = BESIDE) -> None:
    for name in names:
        shutil.copyfile(HERE / "target" / name, folder / name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--stdlib", type=Path, default=stdlib_path())
    args = parser.parse_args()
    if args.out.exists():
        raise SystemExit(f"{args.out}: exists, and is never overwritten; name another folder or remove it")
    texts = held_out_prompts(args.stdlib, 32, 256, seed=1)  # other prompts than demo.evaluate's
    quantise(args.out / "nvfp4" / "target", texts)
    write_plain(args.out / "nvfp4" / "target", args.out / "plain" / "target")
    for form in ("nvfp4", "plain"):
        shutil.copytree(HERE / "draft", args.out / form / "draft")
    sizes = {f: (args.out / f / "target" / "model.safetensors").stat().st_size for f in ("nvfp4", "plain")}
    print(f"{args.out}: NVFP4 {sizes['nvfp4']:,} bytes, the same in float32 {sizes['plain']:,}")


if __name__ == "__main__":
    main()
