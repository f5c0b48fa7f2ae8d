#include "engines/check/facts/facts.h"

#include "engines/check/dtypes/dtype_spread.h"
#include "engines/check/scaler/code.h"
#include "engines/check/syntax/parallel.h"
#include "engines/check/syntax/text_search.h"

namespace mpnanny::check {
namespace {

// Signal processing and evaluation run outside of the autocast of the training, as a rule.
bool IsFrontEnd(std::string_view path) {
  return HoldsAny(path, {"features.py", "feature_transform", "frontend", "log_mel", "mel_",
                         "melspec", "stft", "audio_processing", "evaluat", "metrics"});
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
      ops(ops_in) {
  for (NodeId id = 0; id < syntax.size(); ++id) {
    switch (syntax[id].kind) {
      case Kind::kBinary:
        binaries.push_back(id);
        break;
      case Kind::kAssignment:
        assignments.push_back(id);
        break;
      case Kind::kAugmentedAssignment:
        augmented.push_back(id);
        break;
      default:
        break;
    }
  }
}

void LinkFacts(const std::vector<FileFacts*>& files, unsigned threads, Modules* modules) {
  ProjectFacts project;
  for (FileFacts* file : files) {
    project.AddFile(file->syntax, file->names, file->regions, file->scalers);
    file->number = modules->Add(file->path, file->syntax, file->names, file->bindings);
  }
  modules->Link(threads);
  for (FileFacts* file : files) {
    file->project = project;
    file->modules = modules;
    file->files = &files;
  }
}

void CompleteFacts(const std::vector<FileFacts*>& files, unsigned threads,
                   const CancelToken& cancel) {
  if (files.empty()) return;
  for (FileFacts* file : files) {
    // A loss is scaled for FP16 only, so FP16 is one of the ways in which a project with a
    // GradScaler trains, whatever else its autocast can be set to.
    const bool fp16 =
        (file->project.AssumeFp16() || file->project.grad_scaler) && !IsFrontEnd(file->path);
    file->dtypes = std::make_unique<Dtypes>(file->bindings, file->regions, file->ops, fp16);
  }
  SpreadDtypes(*files[0]->modules, files, threads, cancel);
  if (!files[0]->project.HasTorchScaler()) {
    for (FileFacts* file : files) file->scaler_order = std::make_unique<const ScalerOrder>();
    return;
  }
  std::vector<Codebase::File> analyses;
  for (const FileFacts* file : files) analyses.push_back({&file->bindings, &file->scalers});
  const Codebase codebase(*files[0]->modules, analyses, threads);
  InParallel(files.size(), threads, [&](size_t i) {
    files[i]->scaler_order = std::make_unique<const ScalerOrder>(codebase, i, cancel);
  });
}

}  // namespace mpnanny::check
