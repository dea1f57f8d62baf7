"""The audit: every attack against every defence, over seeds, resumable; then a recommendation and a report."""
