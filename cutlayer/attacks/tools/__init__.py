"""What several attacks share: reading messages, practising, replaying, optimising."""
