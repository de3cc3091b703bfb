"""What is trained towards: the points or rows of a step, what is answered there, and the loss."""
