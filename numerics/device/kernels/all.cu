// What NVRTC compiles (monitor/core/device): every kernel.
#include "numerics/device/kernels/change.h"
#include "numerics/device/kernels/compare.h"
#include "numerics/device/kernels/figures.h"
#include "numerics/device/kernels/flags.h"
