#include "engines/python_code/question.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/python.h"
#include "base/text.h"

namespace mpnanny::python_code {
namespace {

// What is not handed on as it is: places and paths are resolved, the last are for the process.
constexpr std::array kPlaces = {"model", "function", "finding", "loss", "batches"};
constexpr std::array kOther = {"captures",  "input",     "root",  "python",
                               "timeout_s", "memory_mb", "detail"};

bool IsHandedOn(const std::string& key) {
  const auto is = [&](const char* other) { return key == other; };
  return std::none_of(kPlaces.begin(), kPlaces.end(), is) &&
         std::none_of(kOther.begin(), kOther.end(), is);
}

// "file.py:name" with the file resolved.
Result<std::string> ResolvePlace(const std::string& words, const std::string& key,
                                 const AllowedRoots& roots) {
  const size_t colon = words.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == words.size()) {
    const std::string shown = EscapeControl(words, 200);
    std::string hint = key == "finding" ? "Write file.py:123, the suspected line."
                                        : "Write file.py:name, e.g. model.py:build.";
    if (key != "finding" && words.ends_with(".py")) {
      hint += " A training that is a loop and makes its model there: `mpnanny run -- python " +
              shown +
              "` records it with shadow steps, and then choose_precision with run "
              "nanny_logs/metrics.db says which precision it bears.";
    }
    return InvalidInput("`" + key + "` is '" + shown + "': it does not say what in the file.",
                        hint);
  }
  MPN_TRY_ASSIGN(auto file, roots.Resolve(words.substr(0, colon)));
  return file + words.substr(colon);
}

// A command line has words only: `--args '[8, 0.1]'` is one that means a list.
Json AsListed(const Json& args) {
  if (args.size() != 1 || !args[0].is_string()) return args;
  const auto meant = ParseJson(args[0].get<std::string>());
  return meant && meant->is_array() ? *meant : args;
}

Result<void> CheckTarget(const Json& arguments, const std::vector<std::string>& targets,
                         const std::string& how) {
  const auto given = std::count_if(targets.begin(), targets.end(),
                                   [&](const std::string& key) { return arguments.contains(key); });
  if (given == 1) return {};
  return InvalidInput(given == 0 ? "It was not said what is to be run."
                                 : "Only one of " + Join(targets, ", ") + " can be given.",
                      how);
}

}  // namespace

Gpu GpuOf(const std::string& device) {
  if (device == "cuda") return Gpu::kNeeded;
  return device == "cpu" ? Gpu::kNo : Gpu::kIfAllowed;
}

std::string ProjectOf(const std::string& file) {
  std::error_code error;
  const std::filesystem::path own = std::filesystem::path(file).parent_path();
  for (std::filesystem::path folder = own; folder != folder.parent_path();
       folder = folder.parent_path()) {
    for (const char* mark : {".git", "pyproject.toml", "setup.py", "setup.cfg"}) {
      if (std::filesystem::exists(folder / mark, error)) return folder.generic_string();
    }
  }
  return own.generic_string();
}

Result<std::string> ResolveInput(const std::string& word, const AllowedRoots& roots) {
  constexpr std::array<std::string_view, 6> kEndings = {".pt",  ".pth",         ".bin",
                                                        ".npy", ".safetensors", ".npz"};
  const size_t equals = word.find('=');
  const std::string name = equals == std::string::npos ? "" : word.substr(0, equals + 1);
  const std::string rest = word.substr(name.size());
  const size_t hash = rest.find('#');
  const std::string path = rest.substr(0, hash);
  if (std::none_of(kEndings.begin(), kEndings.end(),
                   [&](std::string_view ending) { return path.ends_with(ending); })) {
    return word;
  }
  MPN_TRY_ASSIGN(auto file, roots.Resolve(path));
  return name + file + (hash == std::string::npos ? "" : rest.substr(hash));
}

Result<Question> ReadQuestion(const std::string& module, const std::vector<std::string>& targets,
                              const std::string& how, const Json& arguments,
                              const AllowedRoots& roots) {
  MPN_TRY(CheckTarget(arguments, targets, how));
  Question question;
  question.module = module;
  Json& request = question.request;
  request = Json::object();
  std::string file;
  for (const char* key : kPlaces) {
    if (!arguments.contains(key)) continue;
    auto place = ResolvePlace(arguments[key].get<std::string>(), key, roots);
    if (!place) return place.error();
    if (file.empty()) file = place->substr(0, place->rfind(':'));
    request[key] = *std::move(place);
  }
  for (const auto& [key, value] : arguments.items()) {
    if (IsHandedOn(key)) request[key] = value;
  }
  if (request.contains("args")) request["args"] = AsListed(request["args"]);
  if (arguments.contains("captures")) {
    for (const Json& each : arguments["captures"]) {
      auto path = roots.Resolve(each.get<std::string>());
      if (!path) return path.error();
      request["captures"].push_back(*std::move(path));
    }
  }
  if (arguments.contains("input")) {
    for (const Json& each : arguments["input"]) {
      auto word = ResolveInput(each.get<std::string>(), roots);
      if (!word) return word.error();
      request["input"].push_back(*std::move(word));
    }
  }
  if (arguments.contains("root")) {
    auto root = roots.Resolve(arguments["root"].get<std::string>());
    if (!root) return root.error();
    request["root"] = *std::move(root);
  } else if (!file.empty()) {
    request["root"] = ProjectOf(file);
  }
  // A snippet belongs to the project that the client works in.
  std::error_code error;
  const std::string here = roots.roots().empty()
                               ? std::filesystem::current_path(error).generic_string()
                               : roots.roots().front();
  question.python = arguments.value("python", FindPython(file.empty() ? here + "/snippet" : file));
  question.seconds = std::chrono::seconds(arguments.value("timeout_s", 60));
  question.memory_mb = arguments.value("memory_mb", uint64_t{8192});
  return question;
}

}  // namespace mpnanny::python_code
