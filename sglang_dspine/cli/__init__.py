"""The `sglang-dspine` command."""
