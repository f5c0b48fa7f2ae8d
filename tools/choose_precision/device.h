// What a device computes in hardware: a row of devices.json, which the Python side reads as well.
//
// Plain values; free functions.
#ifndef MPNANNY_TOOLS_CHOOSE_PRECISION_DEVICE_H_
#define MPNANNY_TOOLS_CHOOSE_PRECISION_DEVICE_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/data_files.h"
#include "base/json.h"
#include "base/result.h"

namespace mpnanny::choose_precision {

struct Device {
  std::string name;   // "h100"; "" for one that the table does not have
  std::string title;  // raw
  std::string type;   // as torch.autocast has it: "cuda", "cpu" …; "" for one that is not known
  // Whether its matrix units take fp16, bf16, tf32, fp8; a format that is missing is not known.
  std::map<std::string, bool, std::less<>> has;
  std::vector<std::string> notes;
  std::string source;  // where the figures stand; "" for what a run recorded of its machine
};

// By name, alias, or as a driver writes it ("NVIDIA H100 80GB HBM3"). InvalidInput names those that
// are known.
Result<Device> FindDevice(const DataFiles& data, std::string_view words);

// The device that a run recorded: its first accelerator, else its CPU. `environment`:
// run.environment.
Device RecordedDevice(const DataFiles& data, const Json& environment);

Json DeviceJson(const Device& device);

}  // namespace mpnanny::choose_precision

#endif  // MPNANNY_TOOLS_CHOOSE_PRECISION_DEVICE_H_
