"""Attacks that broke a cut, a noise or a privacy account: each against the weak variant, kept here, and ours."""
