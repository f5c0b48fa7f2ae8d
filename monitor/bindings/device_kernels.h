// `_core.DeviceKernels`: the device kernels, launched on memory of which Python knows the address,
// and what they leave in their slots.
#ifndef MPNANNY_MONITOR_BINDINGS_DEVICE_KERNELS_H_
#define MPNANNY_MONITOR_BINDINGS_DEVICE_KERNELS_H_

#include <Python.h>

namespace mpnanny {

// False with a Python error set.
bool AddDeviceKernels(PyObject* module);

}  // namespace mpnanny

#endif  // MPNANNY_MONITOR_BINDINGS_DEVICE_KERNELS_H_
