// `_core.DeviceKernels`: the device kernels, launched on memory of which Python knows the address,
// and what they leave in their slots.
#ifndef MPNANNY_MONITOR_BINDINGS_DEVICE_KERNELS_H_
#define MPNANNY_MONITOR_BINDINGS_DEVICE_KERNELS_H_

#include <Python.h>

#include "monitor/core/device/kernels.h"

namespace mpnanny {

// False, with a ValueError, for a word that is no kernel.
bool FindKernel(const char* name, device::Kernel& kernel);

// False with a Python error set.
bool AddDeviceKernels(PyObject* module);

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_BINDINGS_DEVICE_KERNELS_H_
