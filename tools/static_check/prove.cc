#include "tools/static_check/prove.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "base/python.h"
#include "base/text.h"
#include "engines/python_code/answer_form.h"
#include "engines/python_code/child.h"
#include "engines/python_code/fields.h"
#include "engines/python_code/question.h"
#include "engines/runs/operator_words.h"
#include "engines/runs/shadow_text.h"

namespace mpnanny::check {
namespace {

using python_code::NumberAt;
using python_code::TextAt;

constexpr uint64_t kMemoryMb = 8192;
// Of the child: to start and import torch, and to end.
constexpr std::chrono::seconds kStartAndEnd{20};
constexpr size_t kMostFiles = 5000;

const Json& AnswerSchema() {
  static const Json& schema = *new Json([] {
    using python_code::RowSchema;
    Json proof = RowSchema({"verdict", "why", "dtype", "policy", "entry"}, {"in_low", "tried"});
    proof["required"] = {"verdict"};
    proof["properties"]["input"] = {{"type", "array"}, {"items", {{"type", "string"}}}};
    proof["properties"]["finding"] =
        RowSchema({"op", "source", "what", "dtype", "error"}, {"accumulated", "share"});
    proof["properties"]["cure"] = RowSchema({"what"}, {"error_before", "error_after"});
    return Json{{"type", "object"},
                {"properties", {{"proofs", {{"type", "array"}, {"items", std::move(proof)}}}}},
                {"required", {"proofs"}}};
  }());
  return schema;
}

std::string WhatWasTried(const Json& told) {
  const std::string inputs = python_code::WordsOf(python_code::ListAt(told, "input"));
  const std::string entry = TextAt(told, "entry");
  if (!entry.empty()) return "its call in " + entry;
  return inputs.empty() ? "made inputs" : "made inputs " + inputs;
}

// "float16 exponential at losses.py:12: Inf or NaN in 7 % of the elements, finite in FP64".
std::string Measured(const Json& finding, const std::string& dtype) {
  const std::string what = TextAt(finding, "what");
  const std::string op = TextAt(finding, "op");
  const std::string source = TextAt(finding, "source");
  const std::string at = source.empty() ? "" : " at " + source;
  if (what == "raised") return "in " + dtype + at + " it stops with " + TextAt(finding, "error");
  const std::string found = TextAt(finding, "dtype");
  const std::string subject = (found.empty() ? dtype : found) + " " +
                              (op.empty() ? "computation" : runs::OperatorWord(op)) + at + ": ";
  const auto share = NumberAt(finding, "share");
  const std::string part = share ? runs::PercentText(*share) : "some";
  if (what == "decision") return subject + part + " of its choices are others than in FP32";
  if (what == "whole_numbers") return subject + part + " of its whole numbers are wrong";
  const auto error = NumberAt(finding, "accumulated");
  if (TextAt(finding, "kind") == "range" || !error || !std::isfinite(*error))
    return subject + part + " of the elements are Inf or NaN, which FP64 holds";
  return subject + "error " + runs::PercentText(*error) + " against FP64";
}

Proof ProofOf(const Json& told) {
  Proof proof;
  const std::string verdict = TextAt(told, "verdict");
  proof.dtype = TextAt(told, "dtype");
  proof.entry = TextAt(told, "entry");
  proof.inputs = python_code::WordsOf(python_code::ListAt(told, "input"));
  if (verdict == "proven") {
    proof.verdict = ProofVerdict::kProven;
    const Json& finding = ValueAt(told, {"finding"});
    const Json& cure = ValueAt(told, {"cure"});
    if (finding.is_object()) {
      proof.why = Measured(finding, proof.dtype);
      if (TextAt(finding, "what") == "raised") proof.raises = TextAt(finding, "error");
      proof.error = NumberAt(finding, "accumulated");
    }
    if (cure.is_object()) proof.error_in_fp32 = NumberAt(cure, "error_after");
    if (proof.error_in_fp32 && std::isfinite(*proof.error_in_fp32))
      proof.why += ", in FP32 " + runs::PercentText(*proof.error_in_fp32);
    proof.why += " (" + WhatWasTried(told) + ")";
    return proof;
  }
  if (verdict != "not_at_these_inputs") {
    proof.why = TextAt(told, "why");
    return proof;
  }
  proof.verdict = ProofVerdict::kNotAtTheseInputs;
  if (NumberAt(told, "in_low").value_or(0) == 0) {
    proof.why = WhatWasTried(told) + " ran, and nothing there is computed in 16 bits";
    return proof;
  }
  const auto tried = static_cast<int>(std::clamp(NumberAt(told, "tried").value_or(1), 1.0, 1e6));
  const std::string ran = proof.entry.empty() && tried > 1
                              ? "of " + std::to_string(tried) + " made inputs none shows it"
                              : WhatWasTried(told) + " does not show it";
  proof.why = ran + " in " + proof.dtype;
  return proof;
}

// Whether a rule's claim is that torch refuses the line: a value that overflows there is no proof
// of it.
bool ClaimsThatItRaises(std::string_view rule) {
  return rule == "dtype-mismatch" || rule == "mask-const-overflow";
}

Proof ProofOf(const Json& told, std::string_view rule) {
  Proof proof = ProofOf(told);
  if (proof.verdict == ProofVerdict::kProven && ClaimsThatItRaises(rule) && proof.raises.empty()) {
    proof.verdict = ProofVerdict::kNotAtTheseInputs;
    proof.why = "it is not refused there; but " + proof.why;
  }
  return proof;
}

Proof NotTried(std::string why) {
  Proof proof;
  proof.why = std::move(why);
  return proof;
}

// Whether an error says that nothing can be run, and not what became of the code.
bool IsForAll(const Error& error, const ToolContext& context) {
  return error.kind == ErrorKind::kUnavailable || error.kind == ErrorKind::kCancelled ||
         error.kind == ErrorKind::kInternal || context.cancel.expired();
}

Result<void> ProveInProject(const std::string& root, const std::vector<Suspect>& suspects,
                            const std::map<std::string, std::string>& files, const Json& all,
                            const Json& training, std::chrono::seconds limit,
                            const std::string& python, const ToolContext& context,
                            std::vector<std::string>& notes) {
  python_code::Question question;
  question.module = "mpnanny.diff";
  question.request = {{"files", all},
                      {"training", training},
                      {"root", root},
                      {"seconds", limit.count()},
                      {"memory_mb", kMemoryMb}};
  for (const Suspect& suspect : suspects) {
    question.request["suspects"].push_back(
        {{"file", files.at(suspect.path)}, {"line", suspect.line}});
  }
  question.python = python.empty() ? FindPython(files.at(suspects.front().path)) : python;
  question.seconds = limit + kStartAndEnd;
  question.memory_mb = kMemoryMb;
  const auto answer = python_code::RunChild(question, AnswerSchema(), context);
  if (!answer && IsForAll(answer.error(), context)) return answer.error();
  for (size_t at = 0; at < suspects.size(); ++at) {
    if (!answer) {
      *suspects[at].proof = NotTried(answer.error().message);
    } else if (at < (*answer)["proofs"].size()) {
      *suspects[at].proof = ProofOf((*answer)["proofs"][at], suspects[at].rule);
    }
  }
  if (!answer) return {};
  for (const Json& each : python_code::ListAt(*answer, "limits")) {
    if (each.is_string()) notes.push_back("The code ran with a limit: " + each.get<std::string>());
  }
  return {};
}

}  // namespace

Proof LargestProof() {
  const std::string inputs(kMostInputsBytes, 'x');
  return {.verdict = ProofVerdict::kNotAtTheseInputs,
          .why = std::string(kMostWhyBytes, 'x'),
          .error = 1.0 / 3,
          .error_in_fp32 = 1.0 / 3,
          .raises = inputs,
          .dtype = "bf16",
          .entry = inputs,
          .inputs = inputs};
}

Result<void> Prove(const std::vector<Suspect>& suspects, const std::vector<Source>& sources,
                   const std::vector<std::string>& training, const ProveOptions& options,
                   const ToolContext& context, std::vector<std::string>& notes) {
  const auto until = std::chrono::steady_clock::now() + options.limit;
  std::map<std::string, std::string> files;  // by path
  Json all = Json::array();
  for (const Source& source : sources) {
    if (source.file.empty() || !source.file.ends_with(".py")) continue;
    files[source.path] = source.file;
    if (all.size() < kMostFiles) all.push_back(source.file);
  }
  Json trains = Json::array();
  for (const std::string& path : training) {
    if (files.contains(path)) trains.push_back(files[path]);
  }
  std::map<std::string, std::vector<Suspect>> by_root;
  for (const Suspect& suspect : suspects) {
    const auto file = files.find(suspect.path);
    if (file == files.end()) {
      *suspect.proof = NotTried("it is no line of a Python file, which alone can be run");
    } else {
      by_root[python_code::ProjectOf(file->second)].push_back(suspect);
    }
  }
  for (const auto& [root, of_root] : by_root) {
    const auto left =
        std::chrono::round<std::chrono::seconds>(until - std::chrono::steady_clock::now());
    if (left < std::chrono::seconds(1)) {
      for (const Suspect& suspect : of_root) {
        *suspect.proof =
            NotTried("the " + std::to_string(options.limit.count()) + " s were over before it");
      }
      continue;
    }
    MPN_TRY(
        ProveInProject(root, of_root, files, all, trains, left, options.python, context, notes));
  }
  return {};
}

}  // namespace mpnanny::check
