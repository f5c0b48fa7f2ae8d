#include "base/os_confined_devices.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace mpnanny {
namespace {

struct GpuFile {
  const char* folder;  // below /dev, with a slash at its end
  const char* name;
  bool numbered;  // a number follows
};
// docs/sandbox.md says what each is for.
constexpr std::array kGpuFiles = {
    GpuFile{"", "nvidiactl", false},
    GpuFile{"", "nvidia", true},
    GpuFile{"", "nvidia-uvm", false},
    GpuFile{"", "nvidia-uvm-tools", false},
    GpuFile{"nvidia-caps/", "nvidia-cap", true},
    GpuFile{"", "kfd", false},
    GpuFile{"dri/", "renderD", true},
    GpuFile{"", "dxg", false},
};

bool Fits(const GpuFile& file, std::string_view name) {
  if (!file.numbered) return name == file.name;
  if (!name.starts_with(file.name)) return false;
  const std::string_view number = name.substr(std::string_view(file.name).size());
  return !number.empty() &&
         std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool IsCharacterDevice(const std::string& path) {
  struct stat state {};
  return lstat(path.c_str(), &state) == 0 && S_ISCHR(state.st_mode);
}

}  // namespace

std::vector<std::string> GpuFiles(const std::string& devices) {
  std::vector<std::string> found;
  for (const GpuFile& each : kGpuFiles) {
    const std::string folder = devices + "/" + each.folder;
    DIR* const entries = opendir(folder.c_str());
    if (entries == nullptr) continue;
    while (const dirent* entry = readdir(entries)) {
      if (Fits(each, entry->d_name) && IsCharacterDevice(folder + entry->d_name))
        found.push_back(std::string(each.folder) + entry->d_name);
    }
    closedir(entries);
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace mpnanny
