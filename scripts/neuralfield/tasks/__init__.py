"""What a network is fitted to: an image, a table, labelled images, or crops to enlarge."""
