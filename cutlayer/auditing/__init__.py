"""From a finished run to findings: what attackers get, what the judge knows, and `audit`."""
