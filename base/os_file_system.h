// Where a file lies: on this machine or across a network; and folders for one user only.
//
// Free functions without state; safe from any thread.
#ifndef MPNANNY_BASE_OS_FILE_SYSTEM_H_
#define MPNANNY_BASE_OS_FILE_SYSTEM_H_

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace mpnanny {

// True where `path` (or the nearest folder above it that exists) is on a file system that several
// machines share, or that a program serves: locks and shared memory do not hold there what SQLite
// needs. Known by the number that statfs() gives: NFS, SMB and CIFS, Lustre, GPFS, BeeGFS, CephFS,
// AFS, Coda, GFS2, OCFS2, PanFS, OrangeFS, 9P (also WSL's), VMware's and Parallels' shared folders,
// and FUSE whatever is behind it. False where the system does not tell.
bool OnNetworkFileSystem(const std::string& path);

// What tells that a file still holds what it held. `changed` is set by every write and by every
// change of the other times, and by no program: a copy that keeps the time of its original has one
// of its own.
struct FileStamp {
  uint64_t device = 0, inode = 0;
  int64_t bytes = 0;
  int64_t changed = 0;  // nanoseconds since 1970
};
// Absent where there is no such file. File systems step `changed` by up to some milliseconds: a
// file that was changed just now may be changed again without a trace.
std::optional<FileStamp> StampOf(const std::string& path);

// True if other users of this machine may read `path`: its mode says so or, in Windows, its access
// list. False where that cannot be told.
bool OpenToOthers(const std::string& path);

// A folder of this machine that only this user may enter (0700): `mpnanny-<uid>` below $TMPDIR,
// /tmp or /var/tmp, the first that is local and can be written. Unavailable: there is none.
Result<std::string> PrivateLocalFolder();

// Makes `path` a folder with mode 0700 unless it is one. Unavailable: it is something else, belongs
// to somebody else or is open to others (in /tmp anybody may have made it first).
Result<void> MakePrivateFolder(const std::string& path);

}  // namespace mpnanny

#endif  // MPNANNY_BASE_OS_FILE_SYSTEM_H_
