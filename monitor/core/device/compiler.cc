#include "monitor/core/device/compiler.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "monitor/core/device/image_cache.h"

namespace mpnanny::device {
namespace {

// Where torch's wheels have it: CUDA 13, CUDA 12.
constexpr const char* kPlaces[] = {"/nvidia/cu13/lib/", "/nvidia/cuda_nvrtc/lib/", "/"};
constexpr const char* kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"};

// No fused multiply-add, no flushing of subnormals: a sum is the same bits on every device.
constexpr const char* kOptions[] = {"--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true",
                                    "--prec-sqrt=true"};

constexpr const char* kInstall =
    "Install a torch for CUDA, or nvidia-cuda-nvrtc-cu12 beside it; until then torch's operators "
    "are used.";

}  // namespace

Result<Compiler> Compiler::Open(const std::vector<std::string>& folders) {
  std::string tried;
  const auto open = [&](const std::string& name) -> Result<Compiler> {
    MPN_TRY_ASSIGN(SharedLibrary library, SharedLibrary::Open(name));
    return Take(std::move(library));
  };
  std::vector<std::string> places;
  for (const std::string& folder : folders) {
    for (const char* place : kPlaces) places.push_back(folder + place);
  }
  places.emplace_back();
  Error why = Unavailable("NVRTC, which compiles kernels for the device, is not here.", kInstall);
  for (const std::string& place : places) {
    for (const char* name : kNames) {
      auto compiler = open(place + name);
      if (compiler) return compiler;
      // One that is here and cannot be used says more than one that is not here.
      if (compiler.error().kind != ErrorKind::kNotFound) why = compiler.error();
    }
  }
  return why;
}

Result<Compiler> Compiler::Take(SharedLibrary library) {
  Compiler compiler(std::move(library));
  int (*get_version)(int*, int*) = nullptr;
  int (*get_count)(int*) = nullptr;
  int (*get_architectures)(int*) = nullptr;
  std::string missing;
  const auto find = [&](const char* symbol, auto& call) {
    call =
        reinterpret_cast<std::remove_reference_t<decltype(call)>>(compiler.library_.Find(symbol));
    if (call == nullptr && missing.empty()) missing = symbol;
  };
  find("nvrtcVersion", get_version);
  find("nvrtcGetNumSupportedArchs", get_count);
  find("nvrtcGetSupportedArchs", get_architectures);
  find("nvrtcCreateProgram", compiler.create_program_);
  find("nvrtcCompileProgram", compiler.compile_program_);
  find("nvrtcDestroyProgram", compiler.destroy_program_);
  find("nvrtcGetProgramLogSize", compiler.get_log_size_);
  find("nvrtcGetProgramLog", compiler.get_log_);
  find("nvrtcGetCUBINSize", compiler.get_cubin_size_);
  find("nvrtcGetCUBIN", compiler.get_cubin_);
  find("nvrtcGetPTXSize", compiler.get_ptx_size_);
  find("nvrtcGetPTX", compiler.get_ptx_);
  find("nvrtcGetErrorString", compiler.get_error_string_);
  if (!missing.empty()) {
    return Unavailable(compiler.library() + " has no " + missing + ".",
                       "NVRTC of CUDA 11.2 or newer is needed. " + std::string(kInstall));
  }
  int major = 0, minor = 0, count = 0;
  if (const int result = get_version(&major, &minor); result != 0)
    return compiler.Failed("nvrtcVersion", result);
  compiler.version_ = std::to_string(major) + "." + std::to_string(minor);
  if (const int result = get_count(&count); result != 0)
    return compiler.Failed("nvrtcGetNumSupportedArchs", result);
  compiler.architectures_.resize(static_cast<size_t>(std::max(count, 0)));
  if (const int result = get_architectures(compiler.architectures_.data()); result != 0)
    return compiler.Failed("nvrtcGetSupportedArchs", result);
  std::sort(compiler.architectures_.begin(), compiler.architectures_.end());
  return compiler;
}

uint64_t Compiler::KeyOf(const std::string& path, int architecture) const {
  uint64_t hash = HashOf(path + " " + std::to_string(architecture) + " " + version_);
  for (const char* option : kOptions) hash = HashOf(option, hash);
  for (const EmbeddedFile& file : EmbeddedDeviceKernels()) hash = HashOf(file.text, hash);
  return hash;
}

Result<std::string> Compiler::Compile(const std::string& path, int architecture,
                                      std::string* log) const {
  if (architectures_.empty() || architecture < architectures_.front()) {
    return Unavailable("NVRTC " + version_ + " knows no sm_" + std::to_string(architecture) + ".",
                       "The device is older than this CUDA: install a torch for an older one.");
  }
  // The newest that is known and not newer than the device.
  const int known =
      *(std::upper_bound(architectures_.begin(), architectures_.end(), architecture) - 1);
  std::vector<const char*> texts, names;
  for (const EmbeddedFile& file : EmbeddedDeviceKernels()) {
    texts.push_back(file.text.data());  // a 0 follows each
    names.push_back(file.path.data());
  }
  const std::string source = "#include \"" + path + "\"\n";
  Program program = nullptr;
  const int result = create_program_(&program, source.c_str(), "mpnanny.cu",
                                     static_cast<int>(texts.size()), texts.data(), names.data());
  if (result != 0) return Failed("nvrtcCreateProgram", result);
  auto compiled = Compile(program, known, known != architecture, log);
  destroy_program_(&program);
  return compiled;
}

Result<std::string> Compiler::Compile(Program program, int architecture, bool as_ptx,
                                      std::string* log) const {
  const std::string target = std::string("--gpu-architecture=") + (as_ptx ? "compute_" : "sm_") +
                             std::to_string(architecture);
  std::vector<const char*> options = {target.c_str()};
  options.insert(options.end(), std::begin(kOptions), std::end(kOptions));
  if (log != nullptr) options.push_back("--ptxas-options=-v");
  if (const int result =
          compile_program_(program, static_cast<int>(options.size()), options.data());
      result != 0) {
    Error error = Failed("nvrtcCompileProgram", result);
    if (const std::string why = LogOf(program); !why.empty())
      error.message += " " + why.substr(0, 2000);
    return error;
  }
  if (log != nullptr) *log = LogOf(program);
  size_t size = 0;
  if (const int result = (as_ptx ? get_ptx_size_ : get_cubin_size_)(program, &size); result != 0)
    return Failed(as_ptx ? "nvrtcGetPTXSize" : "nvrtcGetCUBINSize", result);
  std::string image(size, '\0');
  if (const int result = (as_ptx ? get_ptx_ : get_cubin_)(program, image.data()); result != 0)
    return Failed(as_ptx ? "nvrtcGetPTX" : "nvrtcGetCUBIN", result);
  return image;
}

std::string Compiler::LogOf(Program program) const {
  size_t size = 0;
  if (get_log_size_(program, &size) != 0 || size <= 1) return "";
  std::string log(size, '\0');
  if (get_log_(program, log.data()) != 0) return "";
  log.resize(size - 1);
  return log;
}

Error Compiler::Failed(const char* call, int result) const {
  const char* const text = get_error_string_(result);
  return Unavailable(std::string(call) + " of " + library() +
                         " failed: " + (text != nullptr ? text : std::to_string(result)) + ".",
                     "torch's operators are used instead.");
}

}  // namespace mpnanny::device
