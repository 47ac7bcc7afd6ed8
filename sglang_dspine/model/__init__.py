"""The drafter as SGLang runs it: DFlash layers, the bridge after each, and the transition table."""
