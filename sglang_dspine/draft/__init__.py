"""From the drafter's last hidden states to proposed tokens: candidates, transition table, walk."""
