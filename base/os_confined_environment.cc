#include "base/os_confined_environment.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "base/confinement.h"

extern char** environ;

namespace mpnanny {
namespace {

bool IsPassedOn(std::string_view variable) {
  constexpr std::array<std::string_view, 16> kNames = {
      "PATH",       "HOME",    "USER",           "LANG",         "LANGUAGE",
      "TZ",         "TERM",    "VIRTUAL_ENV",    "CONDA_PREFIX", "PYTHONPATH",
      "PYTHONHOME", "HF_HOME", "HF_HUB_OFFLINE", "TORCH_HOME",   "LD_LIBRARY_PATH",
      "SYSTEMROOT"};
  constexpr std::array<std::string_view, 8> kFamilies = {"LC_",  "CUDA_", "NVIDIA_", "OMP_",
                                                         "MKL_", "HIP_",  "ROCR_",   "HSA_"};
  const std::string_view name = variable.substr(0, variable.find('='));
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end() ||
         std::any_of(kFamilies.begin(), kFamilies.end(),
                     [&](std::string_view family) { return name.starts_with(family); });
}

}  // namespace

std::vector<std::string> PassedOnEnvironment(const std::string& writable) {
  std::vector<std::string> variables;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    if (IsPassedOn(*each)) variables.emplace_back(*each);
  }
  for (const char* name : {"TMPDIR", "XDG_CACHE_HOME", "MPLCONFIGDIR", "TORCHINDUCTOR_CACHE_DIR",
                           "TRITON_CACHE_DIR", "CUDA_CACHE_PATH"}) {
    variables.push_back(std::string(name) + "=" + writable);
  }
  variables.emplace_back("PYTHONDONTWRITEBYTECODE=1");
  return variables;
}

// /proc/PID/environ shows the bytes that the strings lie in.
void WipeEnvironment() {
  char** kept = environ;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    if (IsPassedOn(*each)) {
      *kept++ = *each;
    } else {
      std::memset(*each, 0, std::strlen(*each));
    }
  }
  if (kept != nullptr) *kept = nullptr;
}

}  // namespace mpnanny
