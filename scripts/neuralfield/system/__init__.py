"""Files, devices, random numbers, interruption and errors: nothing here knows networks."""
