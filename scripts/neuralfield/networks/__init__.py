"""Networks that are no coordinate networks: these stand in `neuralfield.fields`."""
