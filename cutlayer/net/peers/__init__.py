"""The other parties: connecting, agreeing where to go on, and carrying messages."""
