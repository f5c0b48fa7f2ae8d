// Which files of /dev belong to GPUs: what a confined program is let through to compute there, by
// name, and nothing that is not one of them.
//
// A free function; safe from any thread.
#ifndef MPNANNY_BASE_OS_CONFINED_DEVICES_H_
#define MPNANNY_BASE_OS_CONFINED_DEVICES_H_

#include <string>
#include <vector>

namespace mpnanny {

// Of those that are there: names below `devices` (/dev), "nvidia0", "dri/renderD128". Character
// devices only, and no links.
std::vector<std::string> GpuFiles(const std::string& devices);

}  // namespace mpnanny

#endif  // MPNANNY_BASE_OS_CONFINED_DEVICES_H_
