"""Everything that decides whether this machine can serve DSPINE, looked at in one go."""
