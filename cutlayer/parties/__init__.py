"""Other kinds of party than the honest ones of party.py: some look ahead, some cheat."""
