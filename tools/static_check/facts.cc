#include "tools/static_check/facts.h"

#include <initializer_list>

#include "tools/static_check/dtype_spread.h"
#include "tools/static_check/parallel.h"

namespace mpnanny::static_check {
namespace {

// A string that names an option ("--bf16", "16-mixed") is short; a docstring is not.
constexpr size_t kLongestOption = 24;

bool MentionsAny(std::string_view text, std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words) {
    if (text.find(word) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

FileFacts::FileFacts(std::string path_in, Syntax syntax_in, const OpTable& ops_in)
    : path(std::move(path_in)),
      syntax(std::move(syntax_in)),
      lines(syntax.text()),
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
  // Names in code, not words of comments and docstrings.
  all.scaling_elsewhere = all.scaling_elsewhere || all.grad_scaler;
  all.sixteen_bit = all.sixteen_bit || !regions.all().empty();
  for (NodeId id = 0; id < syntax.size() && !(all.scaling_elsewhere && all.sixteen_bit); ++id) {
    const Kind kind = syntax[id].kind;
    const std::string_view word = syntax.Text(id);
    if (kind != Kind::kIdentifier && (kind != Kind::kString || word.size() > kLongestOption))
      continue;
    all.scaling_elsewhere =
        all.scaling_elsewhere ||
        (kind == Kind::kIdentifier &&
         MentionsAny(word, {"scaler", "Scaler", "scale_loss", "loss_scale", "deepspeed", "ccelerat",
                            "ightning", "fabric", "Fabric", "colossalai", "megatron", "apex"}));
    all.sixteen_bit = all.sixteen_bit || word == "half" ||
                      MentionsAny(word, {"float16", "fp16", "bf16", "FP16", "BF16", "autocast",
                                         "GradScaler", "16-mixed"});
  }
}

void CompleteFacts(const std::vector<FileFacts*>& files, unsigned threads,
                   const CancelToken& cancel, Modules* modules) {
  ProjectFacts project;
  for (FileFacts* file : files) {
    file->AddTo(project);
    file->number = modules->Add(file->path, file->syntax, file->names, file->bindings);
  }
  modules->Link(threads);
  for (FileFacts* file : files) {
    file->project = project;
    file->modules = modules;
    file->files = &files;
    file->dtypes =
        std::make_unique<Dtypes>(file->bindings, file->regions, file->ops, project.AssumeFp16());
  }
  SpreadDtypes(*modules, files, threads, cancel);
  InParallel(files.size(), threads, [&](size_t i) {
    files[i]->protocol =
        std::make_unique<const Protocol>(files[i]->bindings, files[i]->scalers, cancel);
  });
}

}  // namespace mpnanny::static_check
