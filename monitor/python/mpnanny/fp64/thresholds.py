"""From where on a figure is an error: engines/judgement/thresholds.h, which says why."""

from .. import _core

WRONG: float = _core.THRESHOLDS["wrong"]
AMPLIFICATION: float = _core.THRESHOLDS["amplification"]
NOTED: float = _core.THRESHOLDS["noted"]
CURED: float = _core.THRESHOLDS["cured"]
MATTERS: float = _core.THRESHOLDS["matters"]
MANY_FLUSHED: float = _core.THRESHOLDS["many_flushed"]
MUCH_FLUSHED: float = _core.THRESHOLDS["much_flushed"]
# The rounding of references, beside the terms of a sum: of FP64, and of FP32 in products.
OF_FP64: float = _core.THRESHOLDS["of_fp64"]
OF_PRODUCTS: float = _core.THRESHOLDS["of_products"]
