// The system calls that a confined program is refused: what would change something that neither
// Landlock nor a namespace covers, and what nobody needs who computes.
//
// A free function; to be called between fork and exec in a process of one thread, without a way
// back.
#ifndef MPNANNY_BASE_OS_CONFINED_CALLS_H_
#define MPNANNY_BASE_OS_CONFINED_CALLS_H_

namespace mpnanny {

struct RefusedCalls {
  bool metadata = true;    // of files: modes, owners, times, attributes
  bool truncation = true;  // of files that are not opened for writing
  bool gpu = false;        // but for what drivers of GPUs call
};

// Always: sockets (but pairs of connected ones), other processes' memory, mounts and namespaces,
// System V IPC, message queues, keys, io_uring, memory that no process is charged for, set-user-ID
// bits, and calls that are newer than this list. With `gpu`: a socket of this machine may be bound
// and listened to, but nothing is connected, and there is memory that no process is charged for,
// but no way to pass it on. Programs that ask whether there is such a call get
// ENOSYS, so that they go another way. False where the kernel has no seccomp filters or the machine
// is of another kind.
bool RefuseSystemCalls(const RefusedCalls& refused);

}  // namespace mpnanny

#endif  // MPNANNY_BASE_OS_CONFINED_CALLS_H_
