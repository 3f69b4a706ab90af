"""Pictures of models and of what they draw. Needs matplotlib: ``pip install 'bayescut[plot]'``.

Importing this package does not import matplotlib; drawing does.
"""

from bayescut.plots.images import PALETTE, Palette, Panel, grid_pixels, image_grid, image_panels
from bayescut.plots.inpainting import half_masks, inpainting_panels, sample_panels

__all__ = [
    "PALETTE",
    "Palette",
    "Panel",
    "grid_pixels",
    "half_masks",
    "image_grid",
    "image_panels",
    "inpainting_panels",
    "sample_panels",
]
