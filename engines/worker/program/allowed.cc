#include "engines/worker/program/allowed.h"

#include <algorithm>
#include <iterator>

namespace mpnanny::worker {
namespace {

constexpr std::string_view kNamespaces[] = {
    "aten",      "prim",   "prims",   "quantized", "_quantized", "mkldnn", "mkldnn_prepacked",
    "prepacked", "sparse", "inductor"};
constexpr std::string_view kRefused[] = {
    "aten::from_file", "aten::save",     "aten::_load_from_bytes", "prim::PythonOp",
    "prim::rpc_async", "prim::rpc_sync", "prim::rpc_remote"};

}  // namespace

void CheckAllowed(std::string_view name, const Site& site) {
  const std::string_view space = name.substr(0, name.find("::"));
  if (std::find(std::begin(kNamespaces), std::end(kNamespaces), space) == std::end(kNamespaces)) {
    throw ModelProblem(ShownSite(site) + " is no operator of torch's own.",
                       "Custom operators live in libraries that mpnanny-worker does not load. "
                       "Compare the model in "
                       "Python: model.py:build.");
  }
  if (std::find(std::begin(kRefused), std::end(kRefused), name) != std::end(kRefused)) {
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
  for (const char* torchs : {"site-packages/torch/", "dist-packages/torch/", "/torch/nn/",
                             "/torch/_", "/torch/functional.py"}) {
    if (file.find(torchs) != std::string_view::npos) return false;
  }
  return !file.empty() && file.front() != '<' && !file.starts_with("torch/nn/") &&
         !file.starts_with("code/__torch__");
}

}  // namespace mpnanny::worker
