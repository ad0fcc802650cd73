"""The commands of `hakmem`, one a file; cli.py puts them together."""
