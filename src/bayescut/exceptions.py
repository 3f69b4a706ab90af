"""The errors and warnings this library raises on purpose.

Every error derives from :class:`BayescutError` and from the built-in error a reader would expect,
so that ``except ValueError`` and scikit-learn's own checks keep working.
"""

__all__ = [
    "BayescutError",
    "CircuitError",
    "DataError",
    "DatasetError",
    "IdentifierWarning",
    "ModelFileError",
    "PropertyError",
    "ZeroProbabilityError",
]


class BayescutError(Exception):
    """Base class of all errors raised by this library."""


class DataError(BayescutError, ValueError):
    """A table (or weights, or evidence) that cannot be used; the message names the offender."""


class CircuitError(BayescutError, ValueError):
    """A circuit whose arrays do not describe a distribution."""


class PropertyError(CircuitError):
    """A query that needs a structural property which the circuit lacks."""


class ZeroProbabilityError(BayescutError, ValueError):
    """Conditioning on evidence that the model holds to be impossible; the message names the row."""


class ModelFileError(BayescutError, ValueError):
    """A model file that cannot be read: damaged, of another kind, or of a newer version."""


class DatasetError(BayescutError, OSError):
    """A data set that cannot be had, or whose content fails its checksum."""


class IdentifierWarning(UserWarning):
    """A column has so many states that nothing can be learned about it; the message names it."""
