"""Numbers of a drafter, read from its config.json and nowhere else."""

from .draft import DraftConfig
from .parse import load_config, parse_config
from .render import render_config

__all__ = ["DraftConfig", "load_config", "parse_config", "render_config"]
