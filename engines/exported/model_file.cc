#include "engines/exported/model_file.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "engines/python_code/question.h"

namespace mpnanny::exported {
namespace {

// Of auto_diff; they make the model, train it, or run it elsewhere.
constexpr std::array kNeedCode = {"args",      "kwargs", "loss", "loss_scale", "steps",
                                  "optimizer", "lr",     "fp8",  "level",      "python"};

bool IsAsked(const Json& arguments, const char* key) {
  const auto found = arguments.find(key);
  return found != arguments.end() && !found->is_null() && *found != 0 &&
         !(found->is_string() && found->get_ref<const std::string&>().empty()) &&
         !(found->is_structured() && found->empty()) && *found != "operators" && *found != "tensor";
}

}  // namespace

bool IsModelFile(const std::string& words) {
  constexpr std::array kEndings = {".pt", ".pt2", ".pth", ".ts", ".jit", ".torchscript"};
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [&](const char* ending) { return words.ends_with(ending); });
}

Result<Question> ReadQuestion(const std::string& kind, const Json& arguments,
                              const AllowedRoots& roots) {
  for (const char* key : kNeedCode) {
    if (!IsAsked(arguments, key)) continue;
    return InvalidInput(
        "`" + std::string(key) +
            "` needs the model's code; a model that has left Python is run forward only.",
        "Leave it out, or give the code: model.py:build.");
  }
  if (arguments.value("device", "cpu") == "cuda") {
    return InvalidInput("Models that have left Python run on the CPU.", "Leave out `device`.");
  }
  MPN_TRY_ASSIGN(auto file, roots.Resolve(arguments["model"].get<std::string>()));
  Question question;
  question.request = {{"kind", kind}, {"model", file}, {"input", Json::array()}};
  for (const char* key : {"seed", "dtype", "policy", "rel_warn", "rel_error", "repeats"}) {
    if (arguments.contains(key)) question.request[key] = arguments[key];
  }
  if (arguments.contains("input")) {
    for (const Json& each : arguments["input"]) {
      auto word = python_code::ResolveInput(each.get<std::string>(), roots);
      if (!word) return word.error();
      question.request["input"].push_back(*std::move(word));
    }
  }
  question.request["root"] = python_code::ProjectOf(file);
  if (arguments.contains("root")) {
    auto root = roots.Resolve(arguments["root"].get<std::string>());
    if (!root) return root.error();
    question.request["root"] = *std::move(root);
  }
  question.seconds = std::chrono::seconds(arguments.value("timeout_s", 60));
  question.memory_mb = arguments.value("memory_mb", uint64_t{8192});
  return question;
}

}  // namespace mpnanny::exported
