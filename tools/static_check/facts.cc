#include "tools/static_check/facts.h"

#include <initializer_list>

namespace mpnanny::static_check {
namespace {

bool MentionsAny(std::string_view text, std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words) {
    if (text.find(word) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

FileFacts::FileFacts(Syntax syntax_in, const OpTable& ops_in)
    : syntax(std::move(syntax_in)),
      names(syntax),
      bindings(syntax, names),
      regions(bindings),
      scalers(bindings),
      ops(ops_in) {}

void FileFacts::AddTo(ProjectFacts& all) const {
  for (const Autocast& autocast : regions.all()) {
    if (autocast.enabled == Tri::kNo) continue;
    const bool fp16 =
        autocast.device == Device::kCuda && autocast.dtype == HalfType::kFp16 && !autocast.foreign;
    (fp16 ? all.fp16_on_cuda : all.other_autocast) = true;
  }
  for (const ScalerMade& made : scalers.made())
    all.grad_scaler = all.grad_scaler || !made.enabled_false;
  all.grad_scaler = all.grad_scaler || !scalers.calls().empty();
  all.scaler_updates = all.scaler_updates || scalers.Has(ScalerCall::Op::kUpdate);
  const std::string_view text = syntax.text();
  all.scaler_state =
      all.scaler_state || scalers.Has(ScalerCall::Op::kStateDict) ||
      MentionsAny(text, {"scaler.state_dict", "save_state(", "fabric.save", "save_checkpoint(self",
                         "scaler_state", "'scaler'", "\"scaler\""});
  all.scaling_elsewhere =
      all.scaling_elsewhere || all.grad_scaler ||
      MentionsAny(text, {"scale_loss", "GradScaler", "loss_scaler", "LossScaler", "NativeScaler",
                         "grad_scaler", "loss_scale", "deepspeed", "accelerate", "lightning",
                         "fabric", "Fabric", "colossalai", "megatron", "apex", "scaler"});
  all.sixteen_bit = all.sixteen_bit || !regions.all().empty() ||
                    MentionsAny(text, {"float16", "bfloat16", ".half()", "torch.half", "fp16",
                                       "bf16", "autocast", "GradScaler"});
}

void FileFacts::Complete(const ProjectFacts& project_in, const CancelToken& cancel) {
  project = project_in;
  dtypes = std::make_unique<const Dtypes>(bindings, regions, ops, project.AssumeFp16(), cancel);
  protocol = std::make_unique<const Protocol>(bindings, scalers, cancel);
}

}  // namespace mpnanny::static_check
