#include "engines/check/facts/project_facts.h"

#include <initializer_list>
#include <string_view>

#include "engines/check/syntax/text_search.h"

namespace mpnanny::check {
namespace {

// A string that names an option ("--bf16", "16-mixed") is short; a docstring is not.
constexpr size_t kLongestOption = 24;

// True if one of the words stands in an identifier, or with `in_options` in a short string.
bool NamesAny(const Syntax& syntax, bool in_options,
              std::initializer_list<std::string_view> words) {
  const std::string_view text = syntax.text();
  for (const std::string_view word : words) {
    if (!Holds(text, word)) continue;
    for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
      for (NodeId id = syntax.At(static_cast<uint32_t>(at)); id != kNoNode;
           id = syntax[id].parent) {
        const Kind kind = syntax[id].kind;
        if (kind == Kind::kIdentifier) return true;
        if (kind == Kind::kString) {
          if (in_options && syntax.Text(id).size() <= kLongestOption) return true;
          break;
        }
        if (kind != Kind::kOther) break;  // a part of a string is kOther
      }
    }
  }
  return false;
}

}  // namespace

void ProjectFacts::AddFile(const Syntax& syntax, const Names& names, const Regions& regions,
                           const Scalers& scalers) {
  const std::string_view text = syntax.text();
  const bool trains = !regions.all().empty() && Holds(text, "backward(");
  for (const Autocast& autocast : regions.all()) {
    if (autocast.enabled == Tri::kNo) continue;
    trains_under_autocast = trains_under_autocast || (trains && !regions.NoGradAt(autocast.owner));
    const bool fp16 =
        autocast.device == Device::kCuda && autocast.dtype == HalfType::kFp16 && !autocast.foreign;
    (fp16 ? fp16_on_cuda : other_autocast) = true;
    bf16_autocast = bf16_autocast || autocast.dtype == HalfType::kBf16;
  }
  for (const ScalerMade& made : scalers.made()) grad_scaler = grad_scaler || !made.enabled_false;
  grad_scaler = grad_scaler || !scalers.calls().empty();
  makes_scaler = makes_scaler || !scalers.made().empty();
  own_scaler = own_scaler || syntax.text().find("def unscale_(") != std::string::npos;
  scaler_updates = scaler_updates || scalers.Has(ScalerCall::Op::kUpdate);
  scaler_state = scaler_state || scalers.Has(ScalerCall::Op::kStateDict) ||
                 HoldsAny(text, {"scaler.state_dict", "save_state(", "fabric.save",
                                 "save_checkpoint(self", "scaler_state", "'scaler'", "\"scaler\""});
  apex = apex || names.ImportsModule("apex");
  deepspeed = deepspeed || names.ImportsModule("deepspeed");
  fsdp = fsdp || names.ImportsModule("torch.distributed.fsdp");
  accelerate = accelerate || names.ImportsModule("accelerate");
  lightning = lightning || names.ImportsModule("lightning") ||
              names.ImportsModule("pytorch_lightning") || names.ImportsModule("lightning_fabric");
  hf_trainer = hf_trainer || !names.CallsNamed("TrainingArguments").empty() ||
               !names.CallsNamed("Seq2SeqTrainingArguments").empty();
  casts_models =
      casts_models || !names.CallsNamed("half").empty() || !names.CallsNamed("bfloat16").empty();
  lowers_precision = lowers_precision || casts_models || !regions.all().empty() ||
                     NamesAny(syntax, true,
                              {"autocast", "auto_cast", "float16", "torch.half", "mixed_precision",
                               "MixedPrecision"});
  scaling_elsewhere =
      scaling_elsewhere || grad_scaler || apex || deepspeed || accelerate || lightning ||
      NamesAny(syntax, false,
               {"scaler", "Scaler", "scale_loss", "loss_scale", "deepspeed", "ccelerat", "ightning",
                "fabric", "Fabric", "colossalai", "megatron", "apex"});
  sixteen_bit = sixteen_bit || !regions.all().empty() || !names.CallsNamed("half").empty() ||
                NamesAny(syntax, true,
                         {"float16", "fp16", "bf16", "FP16", "BF16", "autocast", "GradScaler",
                          "16-mixed", "torch.half"});
}

}  // namespace mpnanny::check
