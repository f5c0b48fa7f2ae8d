#include "engines/comparison/health.h"

#include "engines/diagnosis/program.h"
#include "engines/runs/samples.h"
#include "engines/runs/shadow_text.h"

namespace mpnanny::comparison {
namespace {

using diagnosis::Diagnosed;

void TakeMeasured(const runs::ShadowFinding& finding, Fault& fault) {
  fault.kind = finding.kind;
  fault.op = finding.op;
  fault.phase = finding.phase;
  if (fault.source.empty()) fault.source = finding.source;
}

// The one that the diagnosis names.
Fault FirstFault(const Diagnosed& of) {
  Fault fault;
  if (!of.diagnosis.hypotheses.empty() && of.diagnosis.hypotheses.front().cause) {
    fault.cause = of.diagnosis.hypotheses.front().cause->id;
  }
  const auto& first_bad = of.diagnosis.first_bad;
  if (!first_bad) return fault;
  fault.step = first_bad->step;
  fault.what = first_bad->what.English();
  fault.phase = first_bad->phase;
  fault.layer = first_bad->layer;
  fault.source = first_bad->source;
  // What is not finite is flagged at every step, whatever found where it was made.
  if (first_bad->finding) {
    TakeMeasured(of.facts.measured.findings[*first_bad->finding].finding, fault);
    if (!of.facts.onset) fault.found_by = Fault::FoundBy::kShadow;
  } else if (!of.facts.onset && (first_bad->kind || !first_bad->layer.empty())) {
    fault.found_by = Fault::FoundBy::kSamples;
  }
  return fault;
}

}  // namespace

Result<RunHealth> HealthOf(const runs::Source& source, const ToolContext& context) {
  const auto library = cases::SharedLibrary(context.data);
  MPN_TRY_ASSIGN(auto of, diagnosis::DiagnoseProgram(source, {}, context, *library));
  const diagnosis::Facts& facts = of.facts;
  RunHealth health;
  health.verdict = {of.diagnosis.verdict, of.diagnosis.headline.English()};
  health.status = facts.status;
  health.monitored = facts.monitored;
  health.steps = facts.summary.steps;
  health.samples = facts.summary.sampled_steps;
  health.last_step = facts.summary.last_step;
  health.shadow_steps = static_cast<int64_t>(facts.measured.steps.size());
  if (!facts.measured.steps.empty()) health.last_shadow = facts.measured.steps.back().step;
  MPN_TRY_ASSIGN(auto sampled, runs::LastSampledSteps(source, {}, 1));
  if (!sampled.empty()) health.last_sample = sampled.back();
  health.heard = facts.loop.heard;
  health.clips = !facts.loop.clips.empty();
  health.accumulates = facts.loop.backwards > 1;
  if (!health.IsBad()) return health;
  health.faults.push_back(FirstFault(of));
  for (const diagnosis::Mechanism& mechanism : facts.measured.mechanisms) {
    const runs::ShadowFinding& finding = facts.measured.Lead(mechanism).finding;
    Fault fault;
    fault.found_by = Fault::FoundBy::kShadow;
    fault.step = finding.step;
    fault.what = runs::FindingSentence(finding, of.facts.measured.Lead(mechanism).module).English();
    TakeMeasured(finding, fault);
    if (!IsSameFault(fault, health.faults.front())) health.faults.push_back(std::move(fault));
  }
  return health;
}

}  // namespace mpnanny::comparison
