// The machine as a confined program sees it: namespaces of its own, in which nothing can be written
// but one folder, /dev holds what every program needs and no more, and /proc shows nobody else.
//
// Free functions; to be called in a process of one thread, in this order, without a way back.
#ifndef MPNANNY_BASE_OS_CONFINED_VIEW_H_
#define MPNANNY_BASE_OS_CONFINED_VIEW_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/confinement.h"

namespace mpnanny {

struct WantedView {
  std::string writable;
  uint64_t shared_memory_bytes = 0;    // room in /dev/shm
  std::vector<std::string> gpu_files;  // of /dev, that the own one has too
  std::optional<Fence> without = std::nullopt;
};

struct OwnView {
  bool namespaces = false;  // of users, processes (those that are forked from now on), network, IPC
  bool devices = false;     // a /dev and /dev/shm of its own
  bool read_only = false;   // all but `writable`, /dev/shm
};

// All false where the kernel or the machine's rules do not allow it; root needs no user namespace.
OwnView EnterOwnView(const WantedView& wanted);

// For the first process of the new namespace: a /proc that shows it and its children only. With
// `process_files` what processes say of themselves can be written, but nothing of the machine's.
// False where a container's rules hide parts of /proc, so that there can be no whole one.
bool MountOwnProcesses(bool process_files);

// In use of the file system that `folder` lies in, if that is memory; else 0.
uint64_t BytesInMemory(const std::string& folder);

}  // namespace mpnanny

#endif  // MPNANNY_BASE_OS_CONFINED_VIEW_H_
