"""What a decode round costs in a real SGLang server, at the shape of a 27B target, with random weights."""
