"""The published circuits: sizes to the digit, likelihoods to rounding and ties.

Golden values are of the authors' own learner and of Table 4 of Yang, Gala, Peharz (AISTATS 2023).
"""

import numpy as np
import pytest
from tests.published import at_hand

from bayescut import CNetBD, CNetBIC

# data set: (CNetBD parameters, test, train), (CNetBIC parameters, test, train), tolerance
GOLDEN = {
    "nltcs": ((205, -6.0642, -6.0419), (315, -6.0425, -6.0040), 0.001),
    "msnbc": ((1695, -6.0515, -6.0350), (1865, -6.0458, -6.0306), 0.001),
    "kdd": ((2823, -2.2403, -2.3525), (1651, -2.2011, -2.3560), 0.005),
    "plants": ((3399, -13.6970, -12.7698), (3163, -13.4590, -12.6987), 0.005),
    "baudio": ((1549, -42.2091, -41.8438), (3437, -41.9270, -41.1352), 0.001),
    "jester": ((1359, -55.4542, -55.1030), (2689, -55.2312, -54.2647), 0.001),
    "bnetflix": ((1741, -58.8201, -58.4062), (2881, -58.6492, -57.9729), 0.001),
    "accidents": ((2355, -30.5659, -30.1000), (2775, -30.4930, -29.9406), 0.001),
    "tretail": ((269, -10.9396, -10.8225), (269, -10.9392, -10.8225), 0.001),
    "pumsb_star": ((4129, -24.3542, -24.0475), (3187, -24.5112, -24.3147), 0.005),
    "dna": ((359, -87.6428, -87.6160), (359, -87.6419, -87.6151), 0.001),
    "kosarek": ((1875, -10.9975, -10.9643), (1875, -10.9903, -10.9371), 0.001),
    "msweb": ((2333, -10.0089, -9.7466), (1753, -10.0380, -9.8294), 0.001),
    "book": ((2989, -37.1779, -34.9002), (3981, -37.1417, -34.3367), 0.001),
    "tmovie": ((8931, -61.2266, -54.5795), (6959, -59.4408, -54.7548), 0.02),
    "cwebkb": ((5023, -161.6305, -149.3453), (10035, -164.5610, -143.3821), 0.001),
    "cr52": ((10633, -87.7037, -91.8054), (12403, -89.3911, -89.6468), 0.001),
    "c20ng": ((23531, -163.5510, -133.8881), (19939, -162.2199, -131.6876), 0.05),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_published_circuits(name):
    data = at_hand(name)
    bd, bic, tolerance = GOLDEN[name]
    X = np.vstack([data.train, data.valid])
    for learner, (parameters, test, train) in ((CNetBD, bd), (CNetBIC, bic)):
        model = learner().fit(X)
        assert model.n_parameters_ == parameters
        assert model.score(X) == pytest.approx(train, abs=2e-4)
        assert model.score(data.test) == pytest.approx(test, abs=tolerance)
