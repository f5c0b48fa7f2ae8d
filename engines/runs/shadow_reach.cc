#include "engines/runs/shadow_reach.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/layer_word.h"
#include "base/text.h"
#include "engines/runs/shadow_inputs.h"
#include "engines/runs/shadow_text.h"
#include "engines/runs/show.h"

namespace mpnanny::runs {
namespace {

constexpr size_t kReachShown = 3;
constexpr size_t kReachRecorded = 8;  // the monitor keeps no more (shadow/finding_rows.py)

// "weight": what else a wrong value got into.
Sentence ReachKind(const std::string& what) {
  if (what == "weight") return Form("weight", "权重");
  if (what == "output") return Form("output", "输出");
  if (what == "state") return Form("state", "状态");
  if (what == "buffer") return Form("buffer", "缓冲区");
  return EscapeControl(what, 40);
}

Sentence ReachWord(const ShadowReach& reach) {
  const std::string name = LayerWord(Name(reach.name));
  Sentence text;
  if (reach.what == "loss") {
    text = Form("the loss", "损失");
  } else if (reach.what == "gradient") {
    text = name.empty() ? Sentence(Form("gradients", "梯度"))
                        : Sentence(Form("the gradient of {0}", "{0} 的梯度"), {name});
  } else if (reach.what == "input") {
    text = Form("what goes into the model or its loss", "模型或其损失的输入");
  } else if (reach.what == "index") {
    text = name.empty() ? Sentence(Form("an index", "一个索引"))
                        : Sentence(Form("an index ({0})", "一个索引（{0}）"), {name});
  } else if (reach.what == "decision") {
    // Its number is the share of elements that are different.
    return name.empty() ? Sentence(Form("a decision that falls the other way in FP64",
                                        "一个在 FP64 中结果相反的判断"))
                        : Sentence(Form("a decision that falls the other way in FP64 ({0})",
                                        "一个在 FP64 中结果相反的判断（{0}）"),
                                   {name});
  } else {
    text = {name.empty() ? Form("the {0}{1}", "{0}{1}") : Form("{0} {1}", "{0} {1}"),
            {ReachKind(reach.what), name}};
  }
  if (reach.error && *reach.error > 0) {
    text = {Form("{0} (error {1})", "{0}（误差 {1}）"), {std::move(text), Percent(*reach.error)}};
  }
  return text;
}

// "a, b and 2 more" of `all`, which are at least one; "and more" of a list that was cut when it was
// recorded.
Sentence ListedAll(const std::vector<Sentence>& all, bool cut) {
  std::vector<Sentence> words(all.begin(), all.begin() + std::min(all.size(), kReachShown));
  const auto more = static_cast<int64_t>(all.size() - words.size());
  if (more > 0) {
    words.push_back(cut ? Sentence(Form("more", "其他"))
                        : Sentence(Form("{0} more", "另外 {0} 处"), {more}));
  }
  return Sentence::List(words);
}

Sentence ReplacedBy(const std::string& source) {
  if (source.empty()) return "nan_to_num";
  return {Form("nan_to_num at {0}", "{0} 处的 nan_to_num"), {ShownPlace(source)}};
}

}  // namespace

Sentence ReachText(const ShadowFinding& finding) {
  std::vector<Sentence> reached, replaced;
  for (const ShadowReach& reach : finding.reach) {
    if (reach.what == "replaced") {
      replaced.push_back(ReplacedBy(reach.name));
    } else {
      reached.push_back(ReachWord(reach));
    }
  }
  const bool cut = finding.reach.size() >= kReachRecorded;
  Sentence text;
  if (!reached.empty())
    text += Sentence(Form("Reaches {0}.", "影响到{0}。"), {ListedAll(reached, cut)});
  if (!replaced.empty()) {
    text += Sentence(Form("Values were replaced by {0}.", "数值被 {0} 替换。"),
                     {ListedAll(replaced, cut)});
  }
  return text;
}

}  // namespace mpnanny::runs
