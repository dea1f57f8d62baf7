"""Building blocks that several plug-ins share."""
