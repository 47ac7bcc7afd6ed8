"""What a round leaves behind: recurrent states and draft context of accepted tokens, nothing of rejected ones."""
