"""The errors a user can meet.

Every message has the same four parts, so that it can be acted on without reading any code:
where it happened, what was found, what was expected, and what to do.
"""


class NeuralfieldError(Exception):
    """A mistake that a user can mend; shown as one line, never as a traceback.

    Parameters
    ----------
    where : str
        The file, the config key or the step the message is about.
    found : object
        What was there.
    expected : str
        What would have been right.
    remedy : str, optional
        What to do about it.

    Examples
    --------
    >>> print(NeuralfieldError("images.cub.size", 0, "a whole number >= 1", "remove the key"))
    images.cub.size: 0; expected a whole number >= 1; remove the key
    """

    def __init__(self, where: str, found: object, expected: str, remedy: str = "") -> None:
        self.where, self.found, self.expected, self.remedy = where, found, expected, remedy
        message = f"{where}: {found}; expected {expected}"
        super().__init__(f"{message}; {remedy}" if remedy else message)

    def __reduce__(self):
        return type(self), (self.where, self.found, self.expected, self.remedy)


class ConfigError(NeuralfieldError):
    """A setting is missing, unknown, of the wrong type or out of range."""


class InputError(NeuralfieldError):
    """A picture, a table of samples or a weights file cannot be used."""


class ResourceError(NeuralfieldError):
    """The machine has too few cores, too little memory, or no GPU where one was asked for."""


class CheckpointError(NeuralfieldError):
    """A saved state or a model file is damaged or belongs to another run."""


class DivergenceError(NeuralfieldError):
    """The loss stopped being a finite number."""
