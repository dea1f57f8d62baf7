"""A user's own table: read, typed, encoded and divided among parties."""
