"""What can be known to go wrong before SGLang is started: GPU, driver, memory, port, files, the pair.

Standard library only (a drafter's weight headers aside), so that a host with nothing but Docker can be checked.
"""
