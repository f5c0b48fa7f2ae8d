#include "engines/worker/capture.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <utility>

#include "base/text.h"
#include "engines/tensors/element_type.h"
#include "engines/worker/run/call.h"
#include "engines/worker/run/plain_runner.h"
#include "engines/worker/run/start.h"
#include "engines/worker/tensor_types.h"

namespace mpnanny::worker {
namespace {

constexpr char kOrder[] = "order";  // in the metadata: names as they were made
constexpr char kWhole[] = "(model)";

using Named = std::vector<std::pair<std::string, at::Tensor>>;

std::string SafetensorsType(const at::Tensor& tensor) {
  const auto* const type = tensor_files::TypeByName(NameOf(tensor.scalar_type()));
  return type == nullptr ? "" : std::string(type->safetensors);
}

void AddCall(const std::string& call, const std::vector<IValue>& values, Named& made) {
  size_t at = 0;
  for (const IValue& value : values) {
    ForEachTensor(value, [&](const at::Tensor& each) {
      if (!IsFloat(each) || each.layout() != at::kStrided || SafetensorsType(each).empty()) return;
      made.emplace_back(at == 0 ? call : call + "." + std::to_string(at),
                        each.detach().contiguous().clone());
      ++at;
    });
  }
}

Json Write(const Named& tensors, const std::string& path) {
  std::string order;
  for (const auto& [name, tensor] : tensors) order += (order.empty() ? "" : "\n") + name;
  Json header = {{"__metadata__", {{kOrder, order}}}};
  uint64_t end = 0;
  for (const auto& [name, tensor] : tensors) {
    const uint64_t begin = end;
    end += tensor.nbytes();
    header[name] = {{"dtype", SafetensorsType(tensor)},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {begin, end}}};
  }
  std::string text = DumpJson(header);
  text.append((8 - text.size() % 8) % 8, ' ');
  std::ofstream out(path, std::ios::binary);
  const uint64_t size = text.size();
  for (int at = 0; at < 8; ++at) out.put(static_cast<char>(size >> (8 * at) & 0xff));
  out << text;
  for (const auto& [name, tensor] : tensors) {
    out.write(static_cast<const char*>(tensor.const_data_ptr()),
              static_cast<std::streamsize>(tensor.nbytes()));
  }
  out.close();
  if (!out)
    throw ModelProblem("The capture cannot be written.",
                       "It may be larger than what the job may write.");
  return {{"file", path}, {"tensors", tensors.size()}, {"bytes", 8 + text.size() + end}};
}

}  // namespace

Json Capture(const Program& program, const std::vector<IValue>& inputs, const std::string& path) {
  const at::NoGradGuard no_grad;
  Named made;
  std::map<std::string, int> calls;
  PlainRunner runner(
      CastPolicy::AsWritten(), [&](const std::string& module, const std::vector<IValue>& values) {
        if (module.empty()) return;  // the model itself: below
        const int call = ++calls[module];
        AddCall(call == 1 ? module : module + "#" + std::to_string(call), values, made);
      });
  std::vector<IValue> outputs;
  Finish finish = Interpret(program, StartOf(program, inputs, CastPolicy::AsWritten()), runner);
  for (Value& each : finish.outputs) outputs.push_back(std::move(each.held));
  AddCall(kWhole, outputs, made);
  return Write(made, path);
}

}  // namespace mpnanny::worker
