"""Attacks that once broke a secure cut, each against a weak variant that is kept in its test, and against ours."""
