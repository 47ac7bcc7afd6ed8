"""The registered algorithm: what SGLang asks of `--speculative-algorithm DSPINE` before a worker exists."""
