// In place of libnvrtc.so: it follows the includes of a program through the headers that come with
// it, as NVRTC does, which has no others; what it "compiles" is the name of the first.
#include <cstring>
#include <map>
#include <set>
#include <string>

#include "tests/device/stand_in/stand_in.h"

namespace {

constexpr int kInvalidProgram = 4, kInvalidOption = 5, kCompilation = 6;
constexpr int kArchitectures[] = {90, 75, 80};  // in no order that is promised

struct Program {
  std::string source, log, first, code;
  std::map<std::string, std::string> headers;
  std::set<std::string> seen;
};

#define STAND_IN_MAKE(name) \
  if (const int result = stand_in::TheCalls().Make(name); result != 0) return result

// False if a header is missing.
bool Follow(Program& program, const std::string& text) {
  const std::string include = "#include ";
  for (size_t at = text.find(include); at != std::string::npos; at = text.find(include, at + 1)) {
    if (at > 0 && text[at - 1] != '\n') continue;
    const size_t from = at + include.size() + 1, end = text.find_first_of("\">\n", from);
    const std::string name = text.substr(from, end - from);
    if (program.first.empty()) program.first = name;
    const auto header = program.headers.find(name);
    if (header == program.headers.end()) {
      program.log = "mpnanny.cu(1): error: cannot open source file \"" + name + "\"";
      return false;
    }
    if (program.seen.insert(name).second && !Follow(program, header->second)) return false;
  }
  return true;
}

}  // namespace

STAND_IN_CALL void stand_in_reset() { stand_in::TheCalls().Reset(); }

STAND_IN_CALL int nvrtcVersion(int* major, int* minor) {
  STAND_IN_MAKE("nvrtcVersion");
  *major = 12;
  *minor = 9;
  return 0;
}
STAND_IN_CALL int nvrtcGetNumSupportedArchs(int* count) {
  STAND_IN_MAKE("nvrtcGetNumSupportedArchs");
  *count = 3;
  return 0;
}
STAND_IN_CALL int nvrtcGetSupportedArchs(int* out) {
  STAND_IN_MAKE("nvrtcGetSupportedArchs");
  std::memcpy(out, kArchitectures, sizeof(kArchitectures));
  return 0;
}
STAND_IN_CALL int nvrtcCreateProgram(void** program, const char* source, const char*, int count,
                                     const char* const* texts, const char* const* names) {
  STAND_IN_MAKE("nvrtcCreateProgram");
  auto* const made = new Program{source, "", "", "", {}, {}};
  for (int i = 0; i < count; ++i) made->headers[names[i]] = texts[i];
  *program = made;
  return 0;
}
STAND_IN_CALL int nvrtcCompileProgram(void* handle, int count, const char* const* options) {
  STAND_IN_MAKE("nvrtcCompileProgram");
  Program& program = *static_cast<Program*>(handle);
  std::string target;
  bool is_exact = false;
  for (int i = 0; i < count; ++i) {
    const std::string option = options[i];
    if (option.starts_with("--gpu-architecture=")) target = option.substr(19);
    is_exact |= option == "--fmad=false";
    if (option == "--use_fast_math") return kInvalidOption;
  }
  if (!is_exact) return kInvalidOption;
  if (!Follow(program, program.source)) return kCompilation;
  program.code = (target.starts_with("sm_") ? "cubin " : "ptx ") +
                 target.substr(target.find('_') + 1) + " " + program.first;
  return 0;
}
STAND_IN_CALL int nvrtcDestroyProgram(void** program) {
  STAND_IN_MAKE("nvrtcDestroyProgram");
  delete static_cast<Program*>(*program);
  *program = nullptr;
  return 0;
}
STAND_IN_CALL int nvrtcGetProgramLogSize(void* program, size_t* size) {
  STAND_IN_MAKE("nvrtcGetProgramLogSize");
  *size = static_cast<Program*>(program)->log.size() + 1;
  return 0;
}
STAND_IN_CALL int nvrtcGetProgramLog(void* program, char* out) {
  STAND_IN_MAKE("nvrtcGetProgramLog");
  const std::string& log = static_cast<Program*>(program)->log;
  std::memcpy(out, log.c_str(), log.size() + 1);
  return 0;
}
// Of the other kind there is none.
static int Size(void* program, size_t* size, const char* kind) {
  const std::string& code = static_cast<Program*>(program)->code;
  if (!code.starts_with(kind)) return kInvalidProgram;
  *size = code.size() + 1;
  return 0;
}
static int Code(void* program, char* out) {
  const std::string& code = static_cast<Program*>(program)->code;
  std::memcpy(out, code.c_str(), code.size() + 1);
  return 0;
}
STAND_IN_CALL int nvrtcGetCUBINSize(void* program, size_t* size) {
  STAND_IN_MAKE("nvrtcGetCUBINSize");
  return Size(program, size, "cubin");
}
STAND_IN_CALL int nvrtcGetCUBIN(void* program, char* out) {
  STAND_IN_MAKE("nvrtcGetCUBIN");
  return Code(program, out);
}
STAND_IN_CALL int nvrtcGetPTXSize(void* program, size_t* size) {
  STAND_IN_MAKE("nvrtcGetPTXSize");
  return Size(program, size, "ptx");
}
STAND_IN_CALL int nvrtcGetPTX(void* program, char* out) {
  STAND_IN_MAKE("nvrtcGetPTX");
  return Code(program, out);
}
STAND_IN_CALL const char* nvrtcGetErrorString(int result) {
  return result == kCompilation ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR_OTHER";
}
