#include "engines/worker/diff/answer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

#include "base/text.h"
#include "engines/judgement/thresholds.h"
#include "engines/worker/run/keep_runner.h"
#include "engines/worker/tensor_types.h"

namespace mpnanny::worker {
namespace {

using judgement::Finding;
using judgement::Reached;

constexpr size_t kMostShown = 10, kMostContributors = 12, kMostReaches = 6;

Json Number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

// "[4, 8]"
std::string ShownShape(at::IntArrayRef sizes) {
  std::ostringstream shown;
  shown << sizes;
  return shown.str();
}

Json ShapeOf(const at::Tensor& tensor) {
  Json shape = Json::array();
  for (const int64_t size : tensor.sizes()) shape.push_back(size);
  return shape;
}

class Answer {
 public:
  Answer(const DiffOptions& options, const Measured& full, const Measured& low,
         const Verdict& verdict)
      : options_(options),
        full_(full),
        low_(low),
        found_(low.tape->judge().findings()),
        verdict_(verdict),
        rows_(low.tape->Rows()) {}

  Json Of(const Program& program, const std::vector<Input>& inputs, const Trials& trials) const {
    const bool emulated = options_.policy != "cpu-autocast" || !low_.missing_kernels.empty();
    Json answer = {{"verdict", verdict_.Word()}, {"target", options_.target},
                   {"format", program.format},   {"dtype", options_.dtype},
                   {"policy", options_.policy},  {"mode", emulated ? "emulated" : "native"},
                   {"emulated", Emulated()}};
    if (Json first = First(); !first.is_null()) answer["first_bad"] = std::move(first);
    answer["findings"] = Json::array();
    for (size_t at = 1; at < std::min(verdict_.bad().size(), kMostShown); ++at) {
      answer["findings"].push_back(Found(verdict_.bad()[at]));
    }
    answer["contributors"] = Contributors();
    answer["keep_fp32"] = Keep();
    for (const int each : verdict_.bad()) {
      const auto& cure = found_[each].cure;
      if (cure && !answer.contains("cure")) answer["cure"] = Cured(*cure);
    }
    answer["output"] = Outputs();
    answer["layers"] = Layers();
    answer["dims"] = Json::array();
    answer["ill_conditioned"] = Json::array();
    for (const int number : verdict_.ill_conditioned()) {
      const Finding& each = full_.tape->judge().findings()[number];
      const Site& site = full_.tape->SiteOf(each);
      answer["ill_conditioned"].push_back({{"op", site.op},
                                           {"source", Shown(site.source)},
                                           {"error", Number(each.error_out)},
                                           {"kind", NameOf(each.kind)}});
    }
    answer["inputs"] = Inputs(inputs);
    answer["operators"] = low_.operators;
    answer["operators_in_low"] = low_.in_low;
    answer["seconds"] = {{"fp32", full_.seconds}, {"low", low_.seconds}};
    answer["limits"] = NotTested(trials);
    return answer;
  }

 private:
  std::string Shown(const std::string& source) const {
    const std::string root = options_.root.empty() ? "" : options_.root + "/";
    return !root.empty() && source.starts_with(root) ? source.substr(root.size()) : source;
  }

  Json Emulated() const {
    Json codes = Json::array();
    if (options_.policy != "cpu-autocast") codes.push_back("cpu_arithmetic");
    for (const std::string& each : low_.missing_kernels) codes.push_back("kernel:" + each);
    return codes;
  }

  Json First() const {
    if (low_.raised) {
      return {{"op", low_.raised->site.op},
              {"module", low_.raised->site.module},
              {"source", Shown(low_.raised->site.source)},
              {"kind", "range"},
              {"what", "raised"},
              {"error", EscapeControl(low_.raised->what(), 1000)}};
    }
    if (!verdict_.bad().empty()) return AtItsRoot(verdict_.bad().front());
    if (const auto undefined = verdict_.Undefined()) return Found(*undefined);
    if (const Decision* const decided = verdict_.Decided()) {
      return {{"op", decided->site.op},
              {"module", decided->site.module},
              {"source", Shown(decided->site.source)},
              {"phase", "forward"},
              {"kind", "rounding"},
              {"what", "decision"},
              {"dtype", decided->dtype},
              {"shape", decided->shape},
              {"share", Number(decided->share)}};
    }
    if (verdict_.IsSpread()) {
      Json row = Grown();
      if (!row.is_null()) row.update({{"kind", "rounding"}, {"what", "spread"}});
      return row;
    }
    if (const auto whole = verdict_.WrongWhole()) {
      Json row = RowJson(*whole);
      row.update(
          {{"kind", "rounding"}, {"what", "whole_numbers"}, {"share", Number(whole->wrong_whole)}});
      return row;
    }
    if (!low_.unheld.empty() && verdict_.Word() == "broken") {
      const Measured::Unheld& each = low_.unheld.front();
      return {{"op", ""},
              {"module", each.name},
              {"source", ""},
              {"kind", "range"},
              {"what", "input"},
              {"share", Number(each.share)},
              {"magnitude", Number(each.magnitude)}};
    }
    return nullptr;
  }

  // The first operator whose error is that of the worst one but for what lies below the
  // amplification of an operator that is named by itself.
  Json Grown() const {
    double worst = 0;
    for (const Row& each : rows_) worst = std::max(worst, each.accumulated);
    for (const Row& each : rows_) {
      if (each.accumulated * judgement::kAmplification >= worst) return RowJson(each);
    }
    return nullptr;
  }

  // A finding shows at the operator that makes a large error of a small one. Where only lines
  // before it cure it, the first of these is where precision is lost.
  Json AtItsRoot(int number) const {
    const Finding& finding = found_[number];
    Json shown = Found(number);
    if (!finding.cure || finding.cure->lines.empty() ||
        finding.cure->lines[0] == LineOf(low_.tape->NodeOf(finding.place)))
      return shown;
    const std::string& root = finding.cure->lines[0];
    const Row* best = nullptr;
    for (const Row& each : rows_) {
      if (each.site.source == root && (best == nullptr || each.local > best->local)) best = &each;
    }
    if (best == nullptr) return shown;
    shown["shows_at"] = {
        {"op", shown["op"]}, {"module", shown["module"]}, {"source", shown["source"]}};
    shown["op"] = best->site.op;
    shown["module"] = best->site.module;
    shown["source"] = Shown(best->site.source);
    return shown;
  }

  const Row* RowOf(const Site& site) const {
    const auto row = std::find_if(rows_.begin(), rows_.end(), [&](const Row& each) {
      return each.site.source == site.source && each.site.module == site.module &&
             each.site.op == site.op;
    });
    return row == rows_.end() ? nullptr : &*row;
  }

  Json Found(int number) const {
    const Finding& finding = found_[number];
    const Site& site = low_.tape->SiteOf(finding);
    const Row* const row = RowOf(site);
    const bool infinite =
        finding.kind == FindingKind::kRange || finding.kind == FindingKind::kUndefined;
    Json reaches = Json::array();
    for (size_t at = 0; at < std::min(finding.reach.size(), kMostReaches); ++at) {
      const judgement::Reach& each = finding.reach[at];
      const bool is_line = each.what != Reached::kOutput && each.what != Reached::kState;
      reaches.push_back({{"what", mpnanny::NameOf(each.what)},
                         {"name", is_line ? Shown(each.name) : each.name},
                         {"error", Number(each.error)}});
    }
    Json shown = {{"op", site.op},
                  {"module", site.module},
                  {"source", Shown(site.source)},
                  {"phase", "forward"},
                  {"kind", infinite ? "range" : "rounding"},
                  {"what", NameOf(finding.kind)},
                  {"dtype", finding.dtype},
                  {"shape", ShownShape(finding.shape)},
                  {"local", row == nullptr ? Json() : Number(row->local)},
                  {"accumulated", Number(finding.error_out)},
                  {"error_in", Number(finding.error_in)},
                  {"share", Number(finding.share)},
                  {"magnitude", Number(finding.magnitude)},
                  {"precision", NameOf(finding.precision)},
                  {"reaches", std::move(reaches)},
                  {"count", finding.count}};
    if (const auto grown = verdict_.Grown(number)) {
      const Site& where = low_.tape->SiteOf(found_[*grown]);
      shown["grows"] = {{"op", where.op},
                        {"module", where.module},
                        {"source", Shown(where.source)},
                        {"error", Number(found_[*grown].error_out)}};
    }
    return shown;
  }

  Json RowJson(const Row& row) const {
    return {{"module", row.site.module},        {"op", row.site.op},
            {"source", Shown(row.site.source)}, {"phase", "forward"},
            {"local", Number(row.local)},       {"accumulated", Number(row.accumulated)}};
  }

  Json Cured(const judgement::Cure& cure) const {
    Json lines = Json::array();
    for (const std::string& each : cure.lines) lines.push_back(Shown(each));
    return {{"lines", std::move(lines)},
            {"operators", cure.operators},
            {"what", cure.what},
            {"error_before", Number(cure.error_before)},
            {"error_after", Number(cure.error_after)}};
  }

  // The operators whose own rounding is largest. `share`: of the sum of the squares of all.
  Json Contributors() const {
    std::vector<Row> worst = rows_;
    double total = 0;
    for (const Row& each : worst) total += each.squared_local;
    std::stable_sort(worst.begin(), worst.end(),
                     [](const Row& a, const Row& b) { return a.squared_local > b.squared_local; });
    Json list = Json::array();
    for (size_t at = 0;
         at < std::min(worst.size(), kMostContributors) && worst[at].squared_local > 0; ++at) {
      list.push_back(RowJson(worst[at]));
      list.back()["share"] = Number(worst[at].squared_local / total);
    }
    return list;
  }

  // Modules whose lines cure what was found.
  Json Keep() const {
    std::vector<std::string> modules;
    const auto add = [&](const std::string& module) {
      if (!module.empty() && std::find(modules.begin(), modules.end(), module) == modules.end())
        modules.push_back(module);
    };
    for (const int number : verdict_.bad()) {
      const Finding& each = found_[number];
      if (!each.cure) continue;
      for (const Row& row : rows_) {
        const auto& lines = each.cure->lines;
        if (std::find(lines.begin(), lines.end(), row.site.source) != lines.end())
          add(row.site.module);
      }
      add(low_.tape->SiteOf(each).module);
    }
    return modules;
  }

  Json Outputs() const {
    Json list = Json::array();
    for (const Output& each : low_.outputs) {
      if (!each.found) continue;
      list.push_back({{"name", each.name},
                      {"dtype", NameOf(each.held.scalar_type())},
                      {"shape", ShapeOf(each.held)},
                      {"error", Number(each.error())},
                      {"max_error", Number(each.found->max_error)},
                      {"nonfinite", each.found->nonfinite()},
                      {"flushed", each.found->flushed},
                      {"expected", Number(verdict_.Expected())}});
    }
    return list;
  }

  Json Layers() const {
    std::vector<std::pair<std::string, Row>> layers;
    for (const Row& row : rows_) {
      const std::string name = row.site.module.empty() ? Shown(row.site.source) : row.site.module;
      auto known = std::find_if(layers.begin(), layers.end(),
                                [&](const auto& each) { return each.first == name; });
      if (known == layers.end()) known = layers.insert(layers.end(), {name, Row{}});
      Row& layer = known->second;
      layer.count += row.count;
      layer.nonfinite += row.nonfinite;
      layer.local = std::max(layer.local, row.local);
      layer.accumulated = row.accumulated;  // of the last operator
      layer.absmax = std::max(layer.absmax, row.absmax);
    }
    Json list = Json::array();
    for (const auto& [name, layer] : layers) {
      list.push_back({{"module", name},
                      {"operators", layer.count},
                      {"local", Number(layer.local)},
                      {"accumulated", Number(layer.accumulated)},
                      {"absmax", Number(layer.absmax)},
                      {"nonfinite", layer.nonfinite}});
    }
    return list;
  }

  static Json Inputs(const std::vector<Input>& inputs) {
    Json list = Json::array();
    for (const Input& each : inputs) {
      Json shown = {{"name", each.name}, {"words", each.words}};
      if (each.value.isTensor()) {
        shown["dtype"] = NameOf(each.value.toTensor().scalar_type());
        shown["shape"] = ShapeOf(each.value.toTensor());
      } else if (each.value.isInt()) {
        shown["value"] = each.value.toInt();
      } else if (each.value.isDouble()) {
        shown["value"] = Number(each.value.toDouble());
      } else {
        shown["value"] = each.words;
      }
      list.push_back(std::move(shown));
    }
    return list;
  }

  Json NotTested(const Trials& trials) const {
    Json limits = {"forward_only"};
    if (low_.operators > 0 && low_.in_low == 0 && !low_.raised) {
      limits.push_back("nothing_in_low_precision");
    }
    for (const std::string& each : low_.not_followed) limits.push_back("not_followed:" + each);
    if (trials.ran_out_of_time()) limits.push_back("cures_not_all_tried");
    return limits;
  }

  const DiffOptions& options_;
  const Measured& full_;
  const Measured& low_;
  const judgement::Findings& found_;
  const Verdict& verdict_;
  std::vector<Row> rows_;
};

}  // namespace

Json AnswerOf(const Program& program, const std::vector<Input>& inputs, const DiffOptions& options,
              const Measured& full, const Measured& low, const Verdict& verdict,
              const Trials& trials) {
  return Answer(options, full, low, verdict).Of(program, inputs, trials);
}

}  // namespace mpnanny::worker
