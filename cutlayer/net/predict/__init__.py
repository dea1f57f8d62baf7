"""Joint prediction from the parts that every party saved."""
