"""scikit-learn estimators: learners that end in a circuit, with every exact query."""

from bayescut.estimators._classifier import CutsetClassifier
from bayescut.estimators._continuous import ContinuousMixture
from bayescut.estimators._cutset import CNetBD, CNetBIC, CutsetNetwork
from bayescut.estimators._einet import EiNet
from bayescut.estimators._em_cnetbd import EMCNetBD
from bayescut.estimators._ensemble import CutsetEnsemble
from bayescut.estimators._imputer import CutsetImputer
from bayescut.estimators._indirect import IDSPN
from bayescut.estimators._mixture import CutsetMixture
from bayescut.estimators._outliers import CutsetOutlierDetector
from bayescut.estimators._regressor import CutsetRegressor
from bayescut.estimators._rivals import DCSN, CNet, XCNet
from bayescut.estimators._spn import LearnSPN
from bayescut.estimators._strudel import Strudel

__all__ = [
    "DCSN",
    "IDSPN",
    "CNet",
    "CNetBD",
    "CNetBIC",
    "ContinuousMixture",
    "CutsetClassifier",
    "CutsetEnsemble",
    "CutsetImputer",
    "CutsetMixture",
    "CutsetNetwork",
    "CutsetOutlierDetector",
    "CutsetRegressor",
    "EMCNetBD",
    "EiNet",
    "LearnSPN",
    "Strudel",
    "XCNet",
]
