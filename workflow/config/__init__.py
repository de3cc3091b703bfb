"""Reading, resolving and checking the settings that config.yaml and the command line give."""
