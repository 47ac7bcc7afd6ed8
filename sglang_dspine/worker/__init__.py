"""The worker that runs rounds inside SGLang's scheduler process."""
