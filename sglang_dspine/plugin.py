"""Entry point `sglang.srt.plugins: dspine`. SGLang calls `register()` once in every process it starts."""

import logging

logger = logging.getLogger(__name__)
ALGORITHM = "DSPINE"


def register() -> None:
    """Make `--speculative-algorithm DSPINE` known, or make it say why it cannot be served.

    SGLang swallows what a plugin raises (plugins/__init__.py), and the user would later read only "Unknown
    speculative algorithm name". So a failure is logged here and kept as the answer to the flag.
    """
    try:
        from .compat.check import require_symbols

        require_symbols()
        from .algorithm.registration import register_algorithm

        register_algorithm()
    except Exception as error:
        reason = f"{ALGORITHM} could not be registered: {error}"
        logger.error(reason)
        from .algorithm.refusal import register_refusal

        register_refusal(ALGORITHM, reason)
