"""What `serve.sh` stands on: settings, flags by GPU, one supervised SGLang process, its health, its record.

Plan and command are standard library only, so that `--dry-run`, `--status` and `--stop` work before anything is
installed.
"""
