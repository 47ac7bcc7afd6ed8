"""What this plugin relies on in SGLang, and the check of it."""
