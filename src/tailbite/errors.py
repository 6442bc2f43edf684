"""The errors that Tailbite raises; every one derives from :class:`TailbiteError`."""

from __future__ import annotations


class TailbiteError(Exception):
    """Base of all errors that Tailbite raises on purpose."""


class ParameterError(TailbiteError):
    """A preset, shape or limit that Tailbite does not allow."""


class CompileError(TailbiteError):
    """A typed Python function is outside the language; the text gives file, line and a remedy."""


class Trap(TailbiteError):
    """A failed ``assert``, bounds check or other trap inside a compiled or interpreted function."""
