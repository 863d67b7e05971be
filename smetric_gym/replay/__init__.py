"""Replays: a run again with everything that a person wants to see, as a page, a GIF or a trace for Perfetto.

Example:
    >>> from smetric_gym.experiment.evaluate import resolve
    >>> from smetric_gym.replay.page import page
    >>> from smetric_gym.replay.recording import record
    >>> settings, trace, function = resolve("smetric", {"load": 1.5})
    >>> html = page(record(settings, trace=trace, function=function))  # doctest: +SKIP
"""
