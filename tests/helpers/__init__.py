"""What tests share: small federations, made data, real processes, parsed pages. Nothing here is a test."""
