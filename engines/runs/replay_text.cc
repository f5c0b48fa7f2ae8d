#include "engines/runs/replay_text.h"

#include <optional>

#include "base/text.h"
#include "engines/runs/operator_words.h"
#include "engines/runs/show.h"

namespace mpnanny::runs {
namespace {

std::optional<int64_t> WholeNumber(const std::optional<double>& value) {
  if (!value || !(*value >= 0 && *value < 1e15)) return std::nullopt;
  return static_cast<int64_t>(*value);
}

// " on cuda:3 of rank 5".
Sentence Where(const ShadowRelation& relation) {
  const std::string device = EscapeControl(relation.device, 40);
  if (const auto rank = WholeNumber(relation.rank)) {
    if (device.empty()) return {Form(" of rank {0}", "（rank {0}）"), {*rank}};
    return {Form(" on {0} of rank {1}", "（{0}，rank {1}）"), {device, *rank}};
  }
  if (device.empty()) return {};
  return {Form(" on {0}", "（{0}）"), {device}};
}

Sentence Elements(const ShadowRelation& relation) {
  const auto count = WholeNumber(relation.elements);
  if (!count || *count == 0) return {};
  return {Form(" in {0:element}", "，涉及 {0} 个元素"), {*count}};
}

}  // namespace

Sentence NotReproduced(const ShadowFinding& finding, const std::string& place) {
  const ShadowRelation& relation = finding.relation;
  const Sentence op = OperatorNoun(finding.op), where = Where(relation);
  const Sentence at = place.empty() ? Sentence() : Sentence(Form(" at {0}", "（{0}）"), {place});
  if (relation.each_time) {
    return {
        Form("The {0}{1}{2} gives other bits each time it runs on the same operands{3}: a race, "
             "or an operator that is not deterministic and does not say so.",
             "{0}{1}{2}对相同的操作数每次运行都给出不同的位{3}：存在竞态，"
             "或该算子不是确定性的却没有声明。"),
        {op, at, where, Elements(relation)}};
  }
  return {Form("The {0}{1}{2} gave other bits once{3}, out of four runs on the same operands, of "
               "which the other three agree: suspect the hardware, or a race.",
               "{0}{1}{2}在对相同操作数的四次运行中有一次给出了不同的位{3}，"
               "其余三次一致：应怀疑硬件故障或竞态。"),
          {op, at, where, Elements(relation)}};
}

}  // namespace mpnanny::runs
