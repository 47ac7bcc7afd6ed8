"""From the target's logits to an accepted prefix: repair, adjust, filter, accept."""
