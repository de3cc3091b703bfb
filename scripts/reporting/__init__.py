"""Pages and plots of the reports."""
