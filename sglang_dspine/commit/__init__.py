"""What a round leaves behind: recurrent states and draft context of the accepted tokens, and nothing of the rejected."""
