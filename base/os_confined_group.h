// A control group (cgroup v2) of a confined program: there the kernel itself counts and limits all
// memory of its processes, shared memory and the kernel's own for them too.
//
// Owns the group: the destructor ends who is left in it and removes it. For the supervisor, made
// before it changes what it sees of the machine; the program enters it itself. One thread.
#ifndef MPNANNY_BASE_OS_CONFINED_GROUP_H_
#define MPNANNY_BASE_OS_CONFINED_GROUP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace mpnanny {

class ControlGroup {
 public:
  // Beside the group of this process, where that is delegated to the user with the memory
  // controller (a systemd user session, root's slices); nullptr elsewhere.
  static std::unique_ptr<ControlGroup> Create(uint64_t memory_bytes, int most_tasks);
  // The same below the group that the folder `parent` is.
  static std::unique_ptr<ControlGroup> CreateBelow(const std::string& parent, uint64_t memory_bytes,
                                                   int most_tasks);
  ~ControlGroup();
  ControlGroup(const ControlGroup&) = delete;
  ControlGroup& operator=(const ControlGroup&) = delete;

  // Of the calling process. False where the machine's rules do not allow it.
  bool Enter() const;
  // Whether the kernel has ended a process because the group's memory was used up.
  bool WasOutOfMemory() const;

 private:
  ControlGroup(int parent, int folder, std::string name)
      : parent_(parent), folder_(folder), name_(std::move(name)) {}

  int parent_;  // descriptors of the two folders
  int folder_;
  std::string name_;
};

}  // namespace mpnanny

#endif  // MPNANNY_BASE_OS_CONFINED_GROUP_H_
