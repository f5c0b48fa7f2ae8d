#include "engines/worker/job.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/os_file_view.h"
#include "base/text.h"
#include "engines/tensors/zip.h"
#include "engines/worker/capture.h"
#include "engines/worker/diff/diff.h"
#include "engines/worker/inputs.h"
#include "engines/worker/program/allowed.h"
#include "engines/worker/program/exported.h"
#include "engines/worker/program/torchscript.h"
#include "engines/worker/run/plain_runner.h"
#include "engines/worker/run/start.h"

namespace mpnanny::worker {
namespace {

using Clock = std::chrono::steady_clock;

struct Loaded {
  Program program;
  std::function<IValue(std::vector<IValue>)> forward;  // of TorchScript
};

// By what lies in the file, whatever it is called.
Loaded Load(const std::string& path) {
  const auto view = FileView::Open(path);
  if (!view) throw ModelProblem(view.error().message, view.error().hint);
  if (!tensor_files::LooksLikeZip(view->bytes())) {
    throw ModelProblem("The file is neither a TorchScript archive nor a program of torch.export.",
                       "Save one with torch.jit.save or torch.export.save. Of a model in Python "
                       "give model.py:build.");
  }
  const auto zip = tensor_files::ZipFile::Read(view->bytes());
  if (!zip) throw ModelProblem("The file is damaged: " + zip.error().Text(), "Save it again.");
  const auto has = [&](const std::function<bool(const std::string&)>& is) {
    return std::any_of(zip->members().begin(), zip->members().end(),
                       [&](const auto& each) { return is(each.name); });
  };
  if (has([](const std::string& name) {
        return name.ends_with("/archive_format") ||
               name.find("data/aotinductor/") != std::string::npos ||
               name.ends_with("serialized_exported_program.json");
      })) {
    return {LoadExported(path), {}};
  }
  if (has([](const std::string& name) { return name.find("/code/") != std::string::npos; })) {
    TorchScriptModel model = LoadTorchScript(path);
    return {std::move(model.program), std::move(model.forward)};
  }
  throw ModelProblem(
      "The file holds tensors (torch.save: weights, a state_dict) and no program of TorchScript or "
      "torch.export.",
      "Give the model that takes them, model.py:build, or analyze_tensor for the "
      "tensors themselves.");
}

template <typename T>
T ValueOr(const Json& request, const char* key, T otherwise) {
  const auto found = request.find(key);
  return found == request.end() || found->is_null() ? otherwise : found->get<T>();
}

std::vector<Input> InputsOf(const Json& request) {
  return MakeInputs(ValueOr(request, "input", std::vector<std::string>{}),
                    ValueOr(request, "seed", int64_t{0}));
}

Json CaptureAnswer(const Json& request) {
  const Loaded loaded = Load(request.at("model").get<std::string>());
  return Capture(loaded.program, Bound(loaded.program, InputsOf(request)),
                 request.at("output").get<std::string>());
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

Json TimeAnswer(const Json& request) {
  Loaded loaded = Load(request.at("model").get<std::string>());
  const auto values = Bound(loaded.program, InputsOf(request));
  const at::NoGradGuard no_grad;
  const auto timed = [](const auto& call) {
    const auto began = Clock::now();
    call();
    return std::chrono::duration<double, std::milli>(Clock::now() - began).count();
  };
  std::vector<double> forward, op_by_op;
  const int repeats = std::clamp(ValueOr(request, "repeats", 20), 1, 10'000);
  const Start start = StartOf(loaded.program, values, CastPolicy::AsWritten());
  for (int at = 0; at < repeats + 3; ++at) {  // by turns; the first three warm up
    PlainRunner runner(CastPolicy::AsWritten());
    const double ours = timed([&] { Interpret(loaded.program, start, runner); });
    const double theirs = loaded.forward ? timed([&] { loaded.forward(values); }) : 0;
    if (at < 3) continue;
    op_by_op.push_back(ours);
    forward.push_back(theirs);
  }
  Json answer = {{"format", loaded.program.format},
                 {"op_by_op_ms", Median(op_by_op)},
                 {"forward_ms", nullptr}};
  if (loaded.forward) answer["forward_ms"] = Median(forward);
  return answer;
}

Json DiffAnswer(const Json& request, const std::function<void(double, const std::string&)>& say) {
  say(0.01, "loading");
  const std::string model = request.at("model").get<std::string>();
  const Loaded loaded = Load(model);
  DiffOptions options;
  options.target = model.substr(model.rfind('/') + 1);
  options.dtype = ValueOr(request, "dtype", options.dtype);
  options.policy = ValueOr(request, "policy", options.policy);
  options.root = ValueOr(request, "root", std::string());
  if (request.contains("rel_warn")) options.rel_warn = request["rel_warn"].get<double>();
  if (request.contains("rel_error")) options.rel_error = request["rel_error"].get<double>();
  return Diff(loaded.program, InputsOf(request), options, say);
}

Json AnswerTo(const Json& request, const std::function<void(double, const std::string&)>& say) {
  const std::string kind = ValueOr(request, "kind", std::string());
  if (kind == "diff") return DiffAnswer(request, say);
  if (kind == "capture") return CaptureAnswer(request);
  if (kind == "time") return TimeAnswer(request);
  throw ModelProblem("'" + EscapeControl(kind, 60) + "' is no kind of job.",
                     "Known are diff, capture and time.");
}

Json ErrorLine(const std::string& message, const std::string& advice) {
  return {{"error", {{"kind", "InvalidInput"}, {"message", message}, {"try", advice}}}};
}

// torch's messages go on for pages; what is wrong stands at their beginning.
std::string Short(const std::string& message) {
  constexpr size_t kMost = 600;
  return message.size() > kMost ? message.substr(0, kMost) + "…" : message;
}

}  // namespace

void RunJob(const Json& request, const std::function<void(const Json& line)>& write) {
  const auto say = [&](double done, const std::string& what) {
    write({{"progress", {{"done", done}, {"what", what}}}});
  };
  try {
    write({{"answer", AnswerTo(request, say)}});
  } catch (const ModelProblem& problem) {
    write(ErrorLine(problem.what(), problem.hint));
  } catch (const StepFailed& failed) {
    write(ErrorLine("The model stops in FP32 already, at " + ShownSite(failed.site) + ": " +
                        Short(failed.what()),
                    "Check that it runs on these inputs."));
  } catch (const c10::Error& error) {
    write(ErrorLine(
        "torch refuses the model: " + Short(error.what_without_backtrace()),
        "Check that it loads and runs in Python with this version of torch (mpnanny doctor)."));
  } catch (const std::bad_alloc&) {
    write(ErrorLine("There is not enough memory.", "Give smaller inputs or a larger `memory_mb`."));
  } catch (const std::exception& error) {
    write(ErrorLine(
        "torch refuses the model: " + Short(error.what()),
        "Check that it loads and runs in Python with this version of torch (mpnanny doctor)."));
  }
}

}  // namespace mpnanny::worker
