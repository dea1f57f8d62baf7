"""From findings to something people read: plots and a page."""
