"""Public datasets, one file each."""
