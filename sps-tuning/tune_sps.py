#!/usr/bin/env python3
"""Measure verify widths on this machine and write their table: `python sps-tuning/tune_sps.py --help`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # from a clone, installed or not

from sglang_dspine.tuning.cli import main

main()
