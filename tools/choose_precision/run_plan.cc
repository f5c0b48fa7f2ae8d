#include "tools/choose_precision/run_plan.h"

#include <algorithm>
#include <cmath>

#include "numerics/format.h"

namespace mpnanny::choose_precision {
namespace {

// As in monitor/python/mpnanny/precision/scaler.py: room above the largest gradient seen, the
// largest scale, and GradScaler's own interval for a run of many steps.
constexpr double kHeadroom = 16;
constexpr int kMostScale = 24;  // 2^24
constexpr int64_t kGrowthInterval = 2000, kLeastGrowthInterval = 50;

std::string TrainedIn(const Recorded& recorded) {
  if (recorded.computes_in == "float16") return "fp16-autocast";
  if (recorded.computes_in == "bfloat16") {
    return recorded.low_weights ? "bf16-weights" : "bf16-autocast";
  }
  return recorded.computes_in.empty() ? "" : "fp32";
}

bool MayHave(const Device& device, std::string_view format) {
  const auto has = device.has.find(format);
  return has == device.has.end() || has->second;
}

std::vector<size_t> Outside(const Recorded& recorded, double end) {
  std::vector<size_t> outside;
  for (size_t at = 0; at < recorded.layers.size(); ++at) {
    if (recorded.layers[at].absmax.value_or(0) > end) outside.push_back(at);
  }
  std::sort(outside.begin(), outside.end(), [&](size_t a, size_t b) {
    return *recorded.layers[a].absmax > *recorded.layers[b].absmax;
  });
  return outside;
}

JudgedWay Judge(const std::string& way, const char* format, const Recorded& recorded,
                const Device& device, bool measured) {
  if (!MayHave(device, format)) return {way, WayStatus::kNotOnDevice, {}};
  if (measured) return {way, WayStatus::kMeasured, {}};
  auto outside = Outside(recorded, Info(*FormatFromName(format)).max);
  const auto status = outside.empty() ? WayStatus::kInRange : WayStatus::kOutOfRange;
  return {way, status, std::move(outside)};
}

// Of gradients that are not zero, the share that FP16 rounds to zero at a scale of 2^scale: those
// below half of its smallest number, 2^-25. Exponent field e holds 2^(e-127) up to 2^(e-126).
std::optional<double> Flushed(const std::array<int64_t, 256>& exponents, int scale) {
  int64_t all = 0, lost = 0;
  for (int e = 0; e < 255; ++e) {
    all += exponents[static_cast<size_t>(e)];
    if (e - 126 + scale <= -25) lost += exponents[static_cast<size_t>(e)];
  }
  if (all == 0) return std::nullopt;
  return static_cast<double>(lost) / static_cast<double>(all);
}

RunScaling ScalingOf(const Recorded& recorded) {
  RunScaling scaling;
  scaling.gradient_absmax = recorded.gradient_absmax;
  int scale = 16;
  if (recorded.gradient_absmax > 0) {
    const double room = Info(Format::kFp16).max / kHeadroom / recorded.gradient_absmax;
    scale = std::clamp(static_cast<int>(std::floor(std::log2(room))), 0, kMostScale);
  }
  scaling.init_scale = std::ldexp(1.0, scale);
  scaling.growth_interval = std::clamp(recorded.steps / 10, kLeastGrowthInterval, kGrowthInterval);
  scaling.flushed_unscaled = Flushed(recorded.gradient_exponents, 0);
  scaling.flushed = Flushed(recorded.gradient_exponents, scale);
  return scaling;
}

std::vector<FixedLines> Islands(const Recorded& recorded) {
  std::vector<FixedLines> islands;
  for (const Recorded::Lost& each : recorded.lost) {
    const runs::ShadowFinding& finding = each.finding;
    FixedLines fixed;
    fixed.lines = finding.cure ? finding.cure->lines : std::vector<std::string>{finding.source};
    const auto same = [&](const FixedLines& other) { return other.lines == fixed.lines; };
    if (std::any_of(islands.begin(), islands.end(), same)) continue;
    fixed.module = each.module;
    fixed.op = finding.op;
    fixed.kind = finding.kind;
    if (finding.cure) {
      fixed.error_before = finding.cure->error_before;
      fixed.error_after = finding.cure->error_after;
    }
    islands.push_back(std::move(fixed));
  }
  return islands;
}

// The way of a plan that no shadow step measured: BF16 before FP16, since its range is FP32's.
std::string LikelyWay(const RunPlan& plan) {
  const auto best = std::find_if(plan.ways.begin(), plan.ways.end(), [](const JudgedWay& each) {
    return each.status == WayStatus::kInRange || each.status == WayStatus::kMeasured;
  });
  return best == plan.ways.end() ? "fp32" : best->way;
}

}  // namespace

const char* WayStatusName(WayStatus status) {
  switch (status) {
    case WayStatus::kMeasured:
      return "measured";
    case WayStatus::kInRange:
      return "in_range";
    case WayStatus::kOutOfRange:
      return "out_of_range";
    default:
      return "not_on_device";
  }
}

RunPlan PlanOfRun(const Recorded& recorded, const Device& device) {
  RunPlan plan;
  plan.trained_in = TrainedIn(recorded);
  const bool low = !plan.trained_in.empty() && plan.trained_in != "fp32";
  const bool shadowed = low && recorded.shadow_steps > 0;
  const auto measured = [&](const char* way) { return shadowed && plan.trained_in == way; };
  plan.ways.push_back(Judge("bf16-autocast", "bf16", recorded, device, measured("bf16-autocast")));
  plan.ways.push_back(Judge("fp16-autocast", "fp16", recorded, device, measured("fp16-autocast")));
  if (plan.trained_in == "bf16-weights") {
    plan.ways.insert(plan.ways.begin(),
                     Judge("bf16-weights", "bf16", recorded, device, measured("bf16-weights")));
  }
  const bool has_none = std::all_of(plan.ways.begin(), plan.ways.end(), [](const JudgedWay& each) {
    return each.status == WayStatus::kNotOnDevice;
  });
  const bool has_trained =
      std::any_of(plan.ways.begin(), plan.ways.end(),
                  [](const JudgedWay& each) { return each.status == WayStatus::kMeasured; });
  if (has_none) {
    plan.verdict = "nothing_lower_on_device";
    plan.way = "fp32";
    return plan;
  }
  plan.way = has_trained ? plan.trained_in : LikelyWay(plan);
  if (plan.way.starts_with("fp16")) plan.scaler = ScalingOf(recorded);
  plan.verdict = "not_established";
  if (recorded.samples == 0) plan.limits.emplace_back("no_samples");
  if (!has_trained) {
    plan.limits.emplace_back(low && recorded.shadow_steps == 0 ? "no_shadow_steps"
                                                               : "other_format");
    return plan;
  }
  plan.islands = Islands(recorded);
  if (!plan.islands.empty()) {
    plan.verdict = "safe_with_islands";
  } else if (recorded.loss_not_finite || recorded.not_proven > 0) {
    plan.limits.emplace_back("not_precision");
  } else {
    plan.verdict = "safe";
  }
  return plan;
}

}  // namespace mpnanny::choose_precision
