#include "tools/tool.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "engines/cases/case.h"
#include "engines/runs/page.h"
#include "engines/tensors/elements.h"
#include "tools/analyze_tensor/advice.h"
#include "tools/analyze_tensor/analysis.h"
#include "tools/analyze_tensor/report.h"

namespace mpnanny::analyze_tensor {
namespace {

using tensor_files::Entry;
using tensor_files::TensorFile;

constexpr size_t kCasesShown = 4;

// Cases that explain what alerts of these types see.
std::vector<std::string> CasesOf(const std::vector<std::string>& alerts, const DataFiles& data) {
  std::vector<std::string> ids;
  const auto library = cases::SharedLibrary(data);
  for (const std::string& alert : alerts) {
    for (const cases::Case& each : library->all()) {
      const bool fits =
          std::any_of(each.signals.begin(), each.signals.end(), [&](const cases::Signal& signal) {
            return signal.kind == cases::Signal::Kind::kAlert && signal.name == alert;
          });
      if (fits && ids.size() < kCasesShown &&
          std::find(ids.begin(), ids.end(), each.id) == ids.end()) {
        ids.push_back(each.id);
      }
    }
  }
  return ids;
}

const Entry* FindEntry(const TensorFile& file, const std::string& key) {
  for (const Entry& entry : file.entries()) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

Error NoSuchKey(const TensorFile& file, const std::string& key) {
  std::vector<std::string> keys;
  for (const Entry& entry : file.entries()) keys.push_back(entry.key);
  return NoSuchName("tensor", key, keys);
}

Result<ToolOutput> AnalyzeEntry(const Entry& entry, const TensorFile& file,
                                std::optional<Format> target, const Limits& limits,
                                const ToolContext& context) {
  MPN_TRY_ASSIGN(const auto elements, tensor_files::Elements::Read(entry));
  MPN_TRY_ASSIGN(const auto analysis, AnalyzeOne(elements.view(), target, context.cancel));
  if (file.changed()) {
    return DataCorrupt("The file was cut short while it was read.", "Ask again once it is whole.");
  }
  const Advice advice = AdviceFor(analysis, limits);
  const std::vector<std::string> cases = CasesOf(advice.alerts, context.data);
  return ToolOutput{OneJson(entry, analysis, advice, cases, file.notes()),
                    OneText(entry, analysis, advice, cases, file.notes())};
}

Result<ToolOutput> Run(const Json& arguments, const ToolContext& context) {
  MPN_TRY_ASSIGN(auto path, context.roots.Resolve(arguments["path"].get<std::string>()));
  std::optional<Format> target;
  if (arguments.contains("target_dtype")) {
    target = FormatFromName(arguments["target_dtype"].get<std::string>());
  }
  Limits limits;
  limits.underflow_warn = arguments.value("underflow_warn", limits.underflow_warn);
  limits.underflow_error = arguments.value("underflow_error", limits.underflow_error);
  limits.imbalance = arguments.value("imbalance", limits.imbalance);
  MPN_TRY_ASSIGN(const auto file, TensorFile::Open(path, [&](const std::string& shard) {
                   return context.roots.Resolve(shard);
                 }));
  if (arguments.contains("key")) {
    const std::string key = arguments["key"].get<std::string>();
    const Entry* const entry = FindEntry(file, key);
    if (entry == nullptr) return NoSuchKey(file, key);
    return AnalyzeEntry(*entry, file, target, limits, context);
  }
  if (file.entries().size() == 1) {
    return AnalyzeEntry(file.entries().front(), file, target, limits, context);
  }
  size_t first = 0;
  if (arguments.contains("cursor")) {
    const std::string cursor = arguments["cursor"].get<std::string>();
    const auto parsed = std::from_chars(cursor.data(), cursor.data() + cursor.size(), first);
    if (parsed.ec != std::errc() || parsed.ptr != cursor.data() + cursor.size()) {
      return InvalidInput("The cursor '" + EscapeControl(cursor, 60) + "' is none of this tool's.",
                          "Pass back next_cursor as it came.");
    }
  }
  const Format judged = target.value_or(Format::kFp16);
  MPN_TRY_ASSIGN(const auto ranked, RankAll(file, judged, context.cancel));
  FileReport report = ReportFile(file, ranked, judged, std::min(first, ranked.size()),
                                 runs::AnswerBytes(arguments, context));
  return ToolOutput{std::move(report.structured), std::move(report.text)};
}

}  // namespace

Tool MakeTool() {
  ToolDefinition definition;
  definition.name = "analyze_tensor";
  definition.title = "What a tensor loses in FP16, BF16, TF32, FP8";
  definition.description =
      "Reads tensors of a file (.safetensors, .npy, .npz, .pt, .pth, .pt2; nothing in it is "
      "executed) and measures what each format would lose: shares that underflow or overflow, "
      "rounding error, best scale, uneven dimensions and sums over them. With `key` one tensor in "
      "all formats, without it all tensors, the worst first. For models call auto_diff.";
  const auto share = [](double value, const char* text) {
    return Json{{"type", "number"}, {"default", value}, {"description", text}};
  };
  definition.brief =
      "What the tensors of a file (.safetensors, .npy, .npz, .pt, .pth, .pt2; never "
      "executed) lose in FP16, BF16, TF32 or FP8: underflow, overflow, rounding, best "
      "scale, uneven dimensions. With `key` one tensor, without it all, worst first. For "
      "models: auto_diff.";
  definition.brief_arguments = {{"path", "File of tensors, or index of shards"},
                                {"target_dtype", "fp16, bf16, tf32, e4m3 or e5m2; all by default"}};
  definition.input_schema = {
      {"type", "object"},
      {"properties",
       {{"path", {{"type", "string"}, {"description", "File of tensors, or index of shards."}}},
        {"key", {{"type", "string"}, {"description", "Name of one tensor."}}},
        {"target_dtype",
         {{"type", "string"},
          {"enum",
           {"fp16", "bf16", "tf32", "e4m3", "e5m2", "float16", "bfloat16", "float8_e4m3fn",
            "float8_e5m2"}},
          {"description", "One format; all by default, fp16 for the ranking."}}},
        {"underflow_warn", share(0.01, "Share that becomes 0 from which on it is said.")},
        {"underflow_error", share(0.1, "The same, louder.")},
        {"imbalance", share(1e4, "Ratio of slices from which on it is said.")},
        {"cursor", {{"type", "string"}, {"description", "next_cursor of the answer before."}}},
        {"detail", runs::DetailProperty()}}},
      {"required", {"path"}},
      {"additionalProperties", false}};
  definition.output_schema = AnalysisSchema();
  definition.command = {.name = "analyze", .positional = "path"};
  return {std::move(definition), Run};
}

}  // namespace mpnanny::analyze_tensor
