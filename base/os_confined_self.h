// The part of a confinement that a process does to itself before it becomes the program. Nothing of
// it can be taken back.
//
// Free functions; to be called between fork and exec in a process of one thread.
#ifndef MPNANNY_BASE_OS_CONFINED_SELF_H_
#define MPNANNY_BASE_OS_CONFINED_SELF_H_

#include <cstdint>
#include <string>

namespace mpnanny {

// Files may be written, made and removed below `folder` only; devices may be written. False where
// the kernel has no Landlock.
bool WriteOnlyBelow(const std::string& folder);

// Sockets, io_uring and what changes the system cannot be asked for any more; pairs of connected
// sockets between own processes can. False where the kernel has no seccomp filters or the machine
// is of another kind.
bool CutNetwork();

}  // namespace mpnanny

#endif  // MPNANNY_BASE_OS_CONFINED_SELF_H_
