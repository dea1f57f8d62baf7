"""What tests share: small federations, made-up data, real processes, parsed pages. Nothing here is a test."""
