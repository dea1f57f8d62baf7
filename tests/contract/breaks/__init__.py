"""Attacks that once broke a secure cut, noise or a privacy account, each against a weak variant that is kept in its test, and against ours."""
