"""Pictures with labels: reading them, and networks that were taught to tell them apart."""
