"""Pass draft embeddings in the model's dtype; SGLang casts them to bfloat16 whatever the model's is."""

from __future__ import annotations


def keep_dtype(original, self, forward_batch, pp_proxy_tensors):
    kwargs = original(self, forward_batch, pp_proxy_tensors)
    if forward_batch.input_embeds is not None and forward_batch.replace_embeds is None:
        kwargs["input_embeds"] = forward_batch.input_embeds.to(self.dtype)
    return kwargs


def install() -> None:
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    target = "sglang.srt.model_executor.model_runner.ModelRunner._extend_forward_kwargs"
    HookRegistry.register(target, keep_dtype, HookType.AROUND)
