"""Every error a user can meet. Each message says what is wrong, where, and what to do now.

RerankError
├── ConfigError       a YAML file, a name or an option is wrong
├── InputError        a data file is wrong: file, line, field
├── FrozenDataError   frozen data differ from their digest, or two runs rest on different data
├── ScoringError      a model could not be loaded, or gave no usable score
└── IncompleteRun     shards or scores are missing: which, and the command that finishes them
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class RerankError(Exception):
    """Base of all errors shown to the user as one sentence; `exit_code` as in the README."""

    exit_code = 2


class ConfigError(RerankError):
    """A configuration file, a name in it, or a command line option is wrong."""


class InputError(RerankError):
    """A data file is wrong; the message names file, line and field."""


class FrozenDataError(RerankError):
    """Frozen data do not match their digest, or two runs do not share the same data."""


class ScoringError(RerankError):
    """A model could not be loaded or gave a score that cannot be used."""


class IncompleteRun(RerankError):  # noqa: N818  (it is a state, not a mistake)
    """Some shards have no valid receipt; the message names them and the finishing command."""

    exit_code = 1


def unknown_name(kind: str, name: str, known: Iterable[str]) -> ConfigError:
    """The error for a `name` that no table has: lists the known ones and the nearest spelling."""
    choices = sorted(known)
    near = get_close_matches(name, choices, n=1, cutoff=0.5)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return ConfigError(f"unknown {kind} '{name}'.{hint} Known: {', '.join(choices)}.")
