"""A stand-in for SGLang in the tests of serve.sh; put the folder above this one on PYTHONPATH."""
