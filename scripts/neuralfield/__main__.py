"""`python -m neuralfield` is the command `neuralfield`."""

from neuralfield.command.main import main

if __name__ == "__main__":
    main()
