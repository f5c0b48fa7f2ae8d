#include "engines/check/scaler/transitions.h"

#include <algorithm>
#include <utility>

namespace mpnanny::check {
namespace {

using Optimizers = std::set<std::string>;
using Wrong = Violation::Kind;
using Events = Event::Kind;

bool Includes(const Optimizers& all, const Optimizers& some) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

// One event in one state: what is wrong with it, and the next state.
struct Transition {
  const Event& e;
  GradientState& s;
  std::vector<Violation>* violations;

  bool AreScaled() const { return s.gradients == Gradients::kScaled; }
  // Who was unscaled and has stepped since is done with: these gradients are another's.
  bool CarryScale() const { return AreScaled() && Includes(s.stepped, s.unscaled); }
  bool AreStillScaled() const { return CarryScale() && !s.after_step; }
  bool ComeFromOutside() const {
    return s.backward == kNoNode && s.unscaled.empty() && !s.unseen && !s.after_step;
  }

  // `place`: what is named in place of the event.
  void FailIf(bool wrong, Violation::Kind kind, NodeId place = kNoNode, bool guess = false) {
    if (!wrong || s.escaped || s.unseen) return;
    violations->push_back(
        {kind, place == kNoNode ? e.node : place, place == kNoNode ? e.inner : place,
         s.scaler.name.empty() ? e.scaler.name : s.scaler.name, e.optimizer, guess});
  }
  // The same where torch raises: nothing that follows can happen.
  void RaiseIf(bool wrong, Violation::Kind kind, NodeId place = kNoNode) {
    FailIf(wrong, kind, place);
    s.escaped = s.escaped || wrong;
  }

  void Backward() {
    const bool scaled = e.kind == Events::kScaledBackward;
    const bool unscaled = e.kind == Events::kUnscaledBackward;
    if (s.unseen) {
      // These gradients are new; whether the older ones were stepped on and update() has run is not
      // known.
      s.unseen = false;
      s.looked = true;  // perhaps
      s.unscaled.clear();
      s.stepped.clear();
      s.divided.clear();
      s.used.clear();
    } else if (unscaled && !s.pending.empty()) {
      s.mixed = e.node;
    } else if (scaled && s.plain != kNoNode) {
      s.mixed = s.plain;
    }
    FailIf(unscaled && s.pending.empty(), Wrong::kPlainLoss);
    s.gradients = scaled ? Gradients::kScaled : Gradients::kPlain;
    s.scaler = e.scaler;
    s.backward = e.node;
    s.plain = unscaled && s.pending.empty() ? e.node : kNoNode;
    if (scaled) {
      s.pending.insert(e.scaler);
      s.awaiting.insert(e.pass);
      s.stale.merge(s.used);
    }
    s.used.clear();
    s.cleared.clear();
    s.stepped_since_backward.clear();
    s.updated = s.after_step = false;
    s.early_clip = s.early_read = kNoNode;
  }

  void Clip() {
    const bool late = s.after_step && Includes(s.stepped_since_backward, s.unscaled);
    FailIf(AreScaled() && late, Wrong::kClipAfterStep);
    FailIf(CarryScale() && !late, Wrong::kClipScaled);
    if (ComeFromOutside() && s.early_clip == kNoNode && e.node == e.inner) s.early_clip = e.node;
  }

  void Read() {
    FailIf(AreStillScaled(), Wrong::kGradientsRead);
    if (ComeFromOutside() && s.early_read == kNoNode) s.early_read = e.node;
  }

  // unscale_ and step take gradients to be scaled, by this scaler, since the last update().
  void Use() {
    FailIf(s.gradients == Gradients::kPlain && s.plain != kNoNode && s.pending.empty(),
           Wrong::kPlainBackward, s.plain);
    FailIf(s.mixed != kNoNode && e.one_optimizer, Wrong::kPlainAdded, s.mixed);
    FailIf(s.gradients == Gradients::kNone && s.cleared.contains(e.optimizer) && e.before_backward,
           Wrong::kStepOnNone);
    if (!AreScaled()) return;
    const bool other = !s.pending.contains(e.scaler) && s.scaler != e.scaler &&
                       s.scaler.made_here && e.scaler.made_here;
    FailIf(other, Wrong::kOtherScaler);
    const Optimizers& stepped = s.stepped_since_backward;
    const bool updated =
        (s.updated && !stepped.empty() && !stepped.contains(e.optimizer)) ||
        std::any_of(s.outdated.begin(), s.outdated.end(), [&](const BackwardPass& pass) {
          return pass.node == s.backward && pass.optimizer == e.optimizer;
        });
    FailIf(updated && !other, Wrong::kUpdateBetween);
    FailIf(s.stale.contains(e.optimizer), Wrong::kStaleGradients, s.backward);
    FailIf(s.pending.size() > 1 && std::all_of(s.pending.begin(), s.pending.end(),
                                               [](const ScalerName& by) { return by.made_here; }),
           Wrong::kMixedScales);
  }

  void Unscale() {
    Use();
    // Also of the element of a loop that it is, when a check left the iteration. (A loop that runs
    // again for another reason may be a retry.)
    const bool skipped = s.skip != kNoNode;
    const bool unscaled =
        s.unscaled.contains(e.optimizer) ||
        (skipped && s.unscaled.contains("an element as " + e.optimizer + " again"));
    RaiseIf(s.stepped.contains(e.optimizer) && !s.unscaled.contains(e.optimizer),
            Wrong::kUnscaleAfterStep);
    RaiseIf(unscaled && !skipped, Wrong::kDoubleUnscale);
    RaiseIf(unscaled && skipped, Wrong::kSkippedUpdate, s.skip);
    FailIf(AreScaled() && !s.updated && s.divided.contains(e.optimizer), Wrong::kUnscaledTwice);
    s.looked = true;
    s.early_clip = s.early_read = kNoNode;
    if (e.optimizer.empty()) return;
    s.unscaled.insert(e.optimizer);
    s.divided.insert(e.optimizer);
  }

  void Step() {
    // Gradients that came from outside carried the loss scale, if nothing there has unscaled them.
    const bool early = s.unscaled.empty();
    FailIf(early && s.early_clip != kNoNode, Wrong::kClipScaled, s.early_clip, true);
    FailIf(early && s.early_read != kNoNode, Wrong::kGradientsRead, s.early_read, true);
    Use();
    RaiseIf(s.stepped.contains(e.optimizer), Wrong::kStepWithoutUpdate);
    s.looked = s.after_step = true;
    s.early_clip = s.early_read = kNoNode;
    s.stepped_since_backward.insert(e.optimizer);
    s.divided.erase(e.optimizer);
    Settle();
    if (e.optimizer.empty()) return;
    s.stepped.insert(e.optimizer);
    s.used.insert(e.optimizer);
  }

  void Update() {
    const bool asks = e.kind == Events::kUpdate;
    RaiseIf(asks && AreScaled() && !s.looked && !s.updated, Wrong::kUpdateWithoutStep);
    FailIf(asks && s.plain_step != kNoNode && s.unscaled.empty() && s.stepped.empty(),
           Wrong::kPlainStepUpdated, s.plain_step);
    if (!s.stepped.empty()) {
      // Another scaler's losses are not touched.
      std::erase_if(s.awaiting, [&](const BackwardPass& pass) {
        if (!pass.scaler.empty() && pass.scaler != e.scaler.name) return false;
        s.outdated.insert(pass);
        return true;
      });
    }
    StartAnew();
    s.plain_step = kNoNode;
    s.looked = false;
    s.updated = s.moved = true;
    if (s.after_step) s.pending.clear();
  }

  // A scaler that is new has neither unscaled nor stepped; what the gradients were divided by
  // before stays so. (Of several scalers the others are taken to be new, too, which accuses
  // nobody.)
  void StartAnew() {
    s.unscaled.clear();
    s.stepped.clear();
    s.skip = kNoNode;
  }

  void PlainStep() {
    if (!AreScaled()) return;
    const bool stepped = s.stepped_since_backward.contains(e.optimizer);
    FailIf(stepped, Wrong::kPlainStepAfterScaler);
    if (stepped || s.unscaled.contains(e.optimizer) || e.kind == Events::kExcusedStep) return;
    FailIf(true, Wrong::kPlainStepScaled);
    if (!s.looked) s.plain_step = e.node;
    s.looked = true;  // one mistake is told once
  }

  // Gradients that wait for the optimizer's step are used or cleared.
  void Settle() {
    for (std::set<BackwardPass>* passes : {&s.awaiting, &s.outdated}) {
      std::erase_if(*passes, [&](const BackwardPass& pass) {
        return e.optimizer.empty() || pass.optimizer.empty() || pass.optimizer == e.optimizer;
      });
    }
  }

  void Clear() {
    s.gradients = Gradients::kNone;
    s.scaler = {};
    s.after_step = false;
    s.plain = s.mixed = s.early_clip = s.early_read = kNoNode;
    s.used.clear();
    s.stale.clear();
    s.pending.clear();
    s.divided.clear();
  }

  void ZeroGrad() {
    Settle();
    Clear();
    if (e.kind == Events::kZeroGrad && !e.optimizer.empty()) s.cleared.insert(e.optimizer);
  }

  void GoRound() {
    if (!s.unscaled.empty() && s.skip == kNoNode) s.skip = e.node;
  }

  void GoRoundClear() {
    s.used.clear();
    s.stale.clear();
  }
};

constexpr std::pair<Event::Kind, void (*)(Transition& t)> kTransitions[] = {
    {Events::kScale, [](Transition& t) { t.s.moved = false; }},
    {Events::kScaledBackward, [](Transition& t) { t.Backward(); }},
    {Events::kUnscaledBackward, [](Transition& t) { t.Backward(); }},
    {Events::kOtherBackward, [](Transition& t) { t.Backward(); }},
    {Events::kClip, [](Transition& t) { t.Clip(); }},
    {Events::kRead, [](Transition& t) { t.Read(); }},
    {Events::kReplace, [](Transition& t) { t.FailIf(t.AreStillScaled(), Wrong::kNanReplaced); }},
    {Events::kClear, [](Transition& t) { t.Clear(); }},
    {Events::kUnscale, [](Transition& t) { t.Unscale(); }},
    {Events::kStep, [](Transition& t) { t.Step(); }},
    {Events::kUpdate, [](Transition& t) { t.Update(); }},
    {Events::kSetScale, [](Transition& t) { t.Update(); }},
    {Events::kReadScale, [](Transition& t) { t.FailIf(t.s.moved, Wrong::kScaleAfterUpdate); }},
    {Events::kNewScaler, [](Transition& t) { t.StartAnew(); }},
    {Events::kPlainStep, [](Transition& t) { t.PlainStep(); }},
    {Events::kExcusedStep, [](Transition& t) { t.PlainStep(); }},
    {Events::kWrappedStep, [](Transition& t) { t.s.looked = t.s.looked || t.AreScaled(); }},
    {Events::kZeroGrad, [](Transition& t) { t.ZeroGrad(); }},
    {Events::kZeroFill, [](Transition& t) { t.ZeroGrad(); }},
    {Events::kGoRound, [](Transition& t) { t.GoRound(); }},
    {Events::kGoRoundClear, [](Transition& t) { t.GoRoundClear(); }},
    {Events::kMayClear, [](Transition& t) { t.s.used.clear(); }},
    {Events::kMayStep, [](Transition& t) { t.s.divided.clear(); }},
    {Events::kUnseen, [](Transition& t) { t.s.unseen = true; }},
    {Events::kEscape, [](Transition& t) { t.s.escaped = true; }},
};

}  // namespace

void Apply(const Event& event, GradientState& state, std::vector<Violation>* violations) {
  Transition transition{event, state, violations};
  for (const auto& [kind, happen] : kTransitions) {
    if (kind == event.kind) happen(transition);
  }
}

void ForgetOptimizer(const std::string& key, GradientState& s) {
  for (Optimizers* names :
       {&s.unscaled, &s.stepped, &s.stepped_since_backward, &s.used, &s.stale, &s.divided}) {
    std::erase_if(*names, [&](const std::string& name) {
      return name == key || name.starts_with(key + ".") || name.starts_with(key + "[") ||
             name.find("[" + key + "]") != std::string::npos;
    });
  }
}

void NextElement(const std::string& key, NodeId loop, bool starts, GradientState& s) {
  const std::string element = "an element as " + key;
  const std::string here = element + " of " + std::to_string(loop);
  for (Optimizers* names :
       {&s.unscaled, &s.stepped, &s.stepped_since_backward, &s.used, &s.stale}) {
    const bool again = starts && names->contains(here);
    if (names->erase(key) > 0) names->insert(starts ? element : here);
    if (again) names->insert(element + " again");
  }
}

GradientState NextBatch(const GradientState& state) {
  GradientState next;
  next.escaped = state.escaped || state.unseen;
  next.skip = state.skip;
  next.unscaled = state.unscaled;
  next.awaiting = state.awaiting;
  next.outdated = state.outdated;
  return next;
}

}  // namespace mpnanny::check
