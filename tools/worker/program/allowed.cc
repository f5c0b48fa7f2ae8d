#include "tools/worker/program/allowed.h"

#include <algorithm>
#include <array>

namespace mpnanny::worker {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::array kNamespaces = {"aten"sv,
                                    "prim"sv,
                                    "prims"sv,
                                    "quantized"sv,
                                    "_quantized"sv,
                                    "mkldnn"sv,
                                    "mkldnn_prepacked"sv,
                                    "prepacked"sv,
                                    "sparse"sv,
                                    "inductor"sv};
constexpr std::array kRefused = {
    "aten::from_file"sv, "aten::save"sv,     "aten::_load_from_bytes"sv, "prim::PythonOp"sv,
    "prim::rpc_async"sv, "prim::rpc_sync"sv, "prim::rpc_remote"sv};

}  // namespace

void CheckAllowed(std::string_view name, const Site& site) {
  const std::string_view space = name.substr(0, name.find("::"));
  if (std::find(kNamespaces.begin(), kNamespaces.end(), space) == kNamespaces.end()) {
    throw ModelProblem(ShownSite(site) + " is no operator of torch's own.",
                       "Custom operators live in libraries that mpnanny-worker does not load. "
                       "Compare the model in "
                       "Python: model.py:build.");
  }
  if (std::find(kRefused.begin(), kRefused.end(), name) != kRefused.end()) {
    throw ModelProblem(
        ShownSite(site) + " reads or writes files or calls Python, which a model may not.", "");
  }
}

std::string ShownOperator(std::string_view name, std::string_view overload) {
  std::string shown(name);
  if (const size_t colons = shown.find("::"); colons != std::string::npos)
    shown.replace(colons, 2, ".");
  if (!overload.empty() && overload != "default") shown += "." + std::string(overload);
  return shown;
}

std::string ShownSite(const Site& site) {
  std::string where = site.module;
  if (!site.source.empty()) where += (where.empty() ? "" : ", ") + site.source;
  return where.empty() ? site.op : site.op + " (" + where + ")";
}

bool IsUsersFile(std::string_view file) {
  for (const std::string_view torchs : {"site-packages/torch/"sv, "dist-packages/torch/"sv,
                                        "/torch/nn/"sv, "/torch/_"sv, "/torch/functional.py"sv}) {
    if (file.find(torchs) != std::string_view::npos) return false;
  }
  return !file.empty() && file.front() != '<' && !file.starts_with("torch/nn/") &&
         !file.starts_with("code/__torch__");
}

}  // namespace mpnanny::worker
