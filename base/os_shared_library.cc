#include <dlfcn.h>

#include "base/shared_library.h"

namespace mpnanny {

Result<SharedLibrary> SharedLibrary::Open(const std::string& name) {
  void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = dlerror();
    return NotFound(why != nullptr ? why : name + " cannot be opened.");
  }
  return SharedLibrary(name, handle);
}

std::string SharedLibrary::FileName(const std::string& library) {
#ifdef __APPLE__
  return "lib" + library + ".dylib";
#else
  return "lib" + library + ".so";
#endif
}

void* SharedLibrary::Find(const char* symbol) const { return dlsym(handle_, symbol); }

}  // namespace mpnanny
