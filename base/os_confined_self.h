// The part of a confinement that a process does to itself before it becomes the program. Nothing of
// it can be taken back.
//
// Free functions; to be called between fork and exec in a process of one thread.
#ifndef MPNANNY_BASE_OS_CONFINED_SELF_H_
#define MPNANNY_BASE_OS_CONFINED_SELF_H_

#include <string>
#include <vector>

namespace mpnanny {

// What Landlock keeps the process from.
struct WritingLimits {
  bool writing = false;     // files are written, made and removed below the folder only
  bool truncation = false;  // and files that are not opened for writing are not cut either
};

// What may be written besides /dev/null and its like.
struct WritablePlaces {
  std::string folder;                // files are made and removed there, too
  bool shared_memory = false;        // /dev/shm likewise, where that is the process's own
  std::vector<std::string> devices;  // paths; with all that ioctl() does to them
  std::string process_files;         // below here those that /proc has already; "" for none
};

// Files may be written at `places` only. As far as the kernel's version
// of Landlock can it also keeps the process from signals and sockets of others.
WritingLimits WriteOnlyAt(const WritablePlaces& places);

// Of root, or of the first user of a namespace: no program that this one starts has any either.
void DropCapabilities();

// The standard streams stay as well.
void CloseAllBut(const std::vector<int>& kept);

}  // namespace mpnanny

#endif  // MPNANNY_BASE_OS_CONFINED_SELF_H_
