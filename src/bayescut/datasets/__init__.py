"""The benchmark data sets: found on this machine or downloaded, and always checked.

A file is looked for in this order, and the first place that has it decides:

1. the folder named by the environment variable ``BAYESCUT_DATA``;
2. the user's cache: ``BAYESCUT_CACHE``, else ``$XDG_CACHE_HOME/bayescut``, else
   ``~/.cache/bayescut``;
3. the public repository of the data over HTTPS (``BAYESCUT_BASE_URL`` names a mirror), after which
   the file lies in the cache.

Whatever the place, the sha256 of the content must be the one in the embedded manifest; anything
else is a :class:`~bayescut.exceptions.DatasetError`, never a silent use.
"""

from bayescut.datasets._dataset import Dataset
from bayescut.datasets._digits import load_binary_digits
from bayescut.datasets._fetch import fetch_binary_mnist, fetch_debd
from bayescut.datasets._manifest import DEBD_NAMES

__all__ = ["DEBD_NAMES", "Dataset", "fetch_binary_mnist", "fetch_debd", "load_binary_digits"]
