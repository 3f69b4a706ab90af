"""scikit-learn estimators: learners that end in a circuit, with every exact query."""

from bayescut.estimators._cutset import CNetBD, CNetBIC

__all__ = ["CNetBD", "CNetBIC"]
