"""Files, devices, random numbers, interruption and errors; independent of networks."""
