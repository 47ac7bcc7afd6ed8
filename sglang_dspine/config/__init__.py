"""Numbers of a drafter, read from its config.json and nowhere else."""

from .draft import DraftConfig

__all__ = ["DraftConfig"]
