"""The one exception that a user of smetric_gym is meant to see."""


class SmetricError(ValueError):
    """Bad input, said in one sentence: the file, line or key, what was found, and what is allowed."""
