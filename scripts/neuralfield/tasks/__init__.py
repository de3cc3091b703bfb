"""Tasks: fitting an image, a table, labelled images, or crops to enlarge."""
