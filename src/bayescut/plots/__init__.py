"""Pictures of models and of what they draw. Needs matplotlib: ``pip install 'bayescut[plot]'``.

Importing this package does not import matplotlib; drawing does.
"""

from bayescut.plots.images import PALETTE, Palette, Panel, grid_pixels, image_grid, image_panels

__all__ = ["PALETTE", "Palette", "Panel", "grid_pixels", "image_grid", "image_panels"]
