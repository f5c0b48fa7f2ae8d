#include "monitor/core/device/driver.h"

namespace mpnanny::device {
namespace {

// Results and attributes of cuda.h, whose numbers never change.
constexpr int kSuccess = 0, kOutOfMemory = 2, kNotInitialized = 3, kNoDevice = 100,
              kInvalidImage = 200, kInvalidContext = 201, kNoBinaryForDevice = 209,
              kUnsupportedPtx = 222;
constexpr int kFirstThatStays = 700;  // an illegal access and what follows: the context is lost
constexpr int kMajor = 75, kMinor = 76;

const char* HintOf(int result) {
  switch (result) {
    case kOutOfMemory:
      return "The device has no memory left: torch's operators are used instead.";
    case kNotInitialized:
    case kInvalidContext:
      return "CUDA cannot be used here: the process was forked after CUDA had started, or is "
             "ending. Start worker processes by 'spawn'.";
    case kNoDevice:
      return "No device is visible: see CUDA_VISIBLE_DEVICES and nvidia-smi.";
    case kInvalidImage:
    case kNoBinaryForDevice:
    case kUnsupportedPtx:
      return "The driver is older than the NVRTC that torch came with: update the driver, or "
             "install a torch for an older CUDA.";
    default:
      return result >= kFirstThatStays
                 ? "The device failed in an earlier call, most likely one of the training: run "
                   "it with CUDA_LAUNCH_BLOCKING=1."
                 : "torch's operators are used instead.";
  }
}

}  // namespace

Result<Driver> Driver::Open(const std::string& name) {
  auto library = SharedLibrary::Open(name);
  if (!library) {
    return Unavailable("CUDA's driver is not here: " + library.error().message + ".",
                       "Install NVIDIA's driver; inside a container start it with --gpus all.");
  }
  Driver driver;
  int (*init)(unsigned) = nullptr;
  int (*get_version)(int*) = nullptr;
  std::string missing;
  const auto find = [&](const char* symbol, auto& call) {
    call = reinterpret_cast<std::remove_reference_t<decltype(call)>>(library->Find(symbol));
    if (call == nullptr && missing.empty()) missing = symbol;
  };
  find("cuInit", init);
  find("cuDriverGetVersion", get_version);
  find("cuCtxGetCurrent", driver.context_get_current_);
  find("cuCtxGetDevice", driver.context_get_device_);
  find("cuDeviceGetAttribute", driver.device_get_attribute_);
  find("cuModuleLoadData", driver.module_load_data_);
  find("cuModuleGetFunction", driver.module_get_function_);
  find("cuLaunchKernel", driver.launch_kernel_);
  find("cuGetErrorName", driver.get_error_name_);
  find("cuGetErrorString", driver.get_error_string_);
  if (!missing.empty())
    return Unavailable(name + " has no " + missing + ".", "It is not CUDA's driver.");
  if (const int result = init(0); result != kSuccess) return driver.Failed("cuInit", result);
  if (const int result = get_version(&driver.version_); result != kSuccess)
    return driver.Failed("cuDriverGetVersion", result);
  return driver;
}

Result<Driver::Context> Driver::CurrentContext() const {
  Context context = nullptr;
  if (const int result = context_get_current_(&context); result != kSuccess)
    return Failed("cuCtxGetCurrent", result);
  if (context == nullptr) {
    return Unavailable("This thread has no CUDA context.",
                       "Call it from a thread that has used the device.");
  }
  return context;
}

Result<int> Driver::Architecture() const {
  int device = 0, major = 0, minor = 0;
  if (const int result = context_get_device_(&device); result != kSuccess)
    return Failed("cuCtxGetDevice", result);
  if (const int result = device_get_attribute_(&major, kMajor, device); result != kSuccess)
    return Failed("cuDeviceGetAttribute", result);
  if (const int result = device_get_attribute_(&minor, kMinor, device); result != kSuccess)
    return Failed("cuDeviceGetAttribute", result);
  return major * 10 + minor;
}

Result<Driver::Module> Driver::Load(const std::string& image) const {
  Module module = nullptr;
  if (const int result = module_load_data_(&module, image.c_str()); result != kSuccess)
    return Failed("cuModuleLoadData", result);
  return module;
}

Result<Driver::Function> Driver::Find(Module module, const char* name) const {
  Function function = nullptr;
  if (const int result = module_get_function_(&function, module, name); result != kSuccess)
    return Failed("cuModuleGetFunction", result);
  return function;
}

Result<void> Driver::Launch(Function function, int blocks, int threads, Stream stream,
                            void** parameters) const {
  const int result =
      launch_kernel_(function, static_cast<unsigned>(blocks), 1, 1, static_cast<unsigned>(threads),
                     1, 1, 0, stream, parameters, nullptr);
  if (result != kSuccess) return Failed("cuLaunchKernel", result);
  return {};
}

Error Driver::Failed(const char* call, int result) const {
  const char *name = nullptr, *text = nullptr;
  get_error_name_(result, &name);
  get_error_string_(result, &text);
  std::string message = std::string(call) + " failed: ";
  message += name != nullptr ? name : "error " + std::to_string(result);
  if (text != nullptr) message += std::string(" (") + text + ")";
  return Unavailable(message + ".", HintOf(result));
}

}  // namespace mpnanny::device
