"""Errors that are reported to the person at the terminal, each with its exit status."""


class LabError(Exception):
    """Something that the user can act on. The message is the whole report."""

    exit_status = 1


class MissingError(LabError):
    """A library, driver or program that is needed is not there."""

    exit_status = 2


class NotMappedError(LabError):
    """A program ran, but not with the allocator that it was to be measured with."""

    exit_status = 3


class RunError(LabError):
    """The measured program could not be started, failed or did not end in time."""

    exit_status = 4
