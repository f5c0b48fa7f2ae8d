#include <windows.h>

#include "base/os_windows_text.h"
#include "base/shared_library.h"

namespace mpnanny {

Result<SharedLibrary> SharedLibrary::Open(const std::string& name) {
  // What the library itself needs is looked for beside it, where a path is named.
  const bool path = name.find_first_of("/\\:") != std::string::npos;
  const HMODULE handle = LoadLibraryExW(
      ToWide(name).c_str(), nullptr,
      path ? LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_DEFAULT_DIRS : 0);
  if (handle == nullptr) return NotFound(name + ": " + WindowsErrorText(GetLastError()));
  return SharedLibrary(name, reinterpret_cast<void*>(handle));
}

std::string SharedLibrary::FileName(const std::string& library) { return library + ".dll"; }

void* SharedLibrary::Find(const char* symbol) const {
  return reinterpret_cast<void*>(GetProcAddress(reinterpret_cast<HMODULE>(handle_), symbol));
}

}  // namespace mpnanny
