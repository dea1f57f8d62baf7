"""One party's process: its file, its data, its folder, its training."""
