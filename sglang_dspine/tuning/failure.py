"""What the tuner says when it cannot go on."""

from ..errors import DSpineError


class TuningError(DSpineError):
    """Measurements that must not become a table, or a server that cannot be measured."""
