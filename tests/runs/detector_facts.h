// Facts for tests of single detectors, put together by hand.
#ifndef MPNANNY_TESTS_RUNS_DETECTOR_FACTS_H_
#define MPNANNY_TESTS_RUNS_DETECTOR_FACTS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engines/diagnosis/detectors/detector.h"
#include "tests/runs/same_figures.h"

namespace mpnanny::diagnosis {

// A run whose first bad value was born in that phase, in a layer that is its producer.
inline Facts BrokenAt(int64_t step, const std::string& phase, const std::string& layer) {
  Facts facts;
  facts.precision = Precision::kFp16;
  Onset onset;
  onset.step = step;
  onset.phase = Word<Phase>(phase);
  onset.layer = onset.layer_type = layer;
  onset.place = Onset::Place::kProducer;
  facts.onset = onset;
  return facts;
}

// An operator that made `what` ("NaN", "+Inf", "-Inf") of finite values.
inline NanOrigin Made(const std::string& op, const std::string& dtype, const std::string& what,
                      double largest) {
  NanOrigin origin;
  origin.op = op;
  origin.dtype = dtype;
  origin.nan = what.find("NaN") != std::string::npos;
  origin.posinf = what.find("+Inf") != std::string::npos;
  origin.neginf = what.find("-Inf") != std::string::npos;
  origin.largest = largest;
  return origin;
}

inline NanOrigin MaskedSoftmax(const std::string& dtype) {
  NanOrigin origin = Made("_softmax", dtype, "NaN", 0);
  origin.inputs = NanOrigin::Inputs::kMask;
  origin.largest.reset();
  return origin;
}

// (step, absmax): also the root mean square and the mean; 1,000 elements without a zero.
inline Series& AddSeries(Facts& facts, const std::string& layer, int64_t kind,
                         const std::string& dtype,
                         const std::vector<std::pair<int64_t, double>>& points,
                         const std::string& type = "Linear") {
  Series series;
  series.layer = layer;
  series.layer_id = static_cast<int64_t>(facts.profile.series.size()) + 1;
  series.position = series.layer_id;
  series.kind = kind;
  series.dtype = dtype;
  series.type = type;
  for (const auto& [step, value] : points) {
    Measured point;
    point.step = step;
    point.numel = 1000;
    point.absmax = point.rms = value;
    series.points.push_back(point);
  }
  facts.profile.series.push_back(series);
  return facts.profile.series.back();
}

// Whether the sign is among the claims, all of which have Chinese words.
inline bool Fires(const Facts& facts, std::string_view sign) {
  const std::vector<Claim> claims = RunDetectors(facts);
  for (const Claim& claim : claims) {
    for (const runs::Sentence* each : {&claim.sentence, &claim.title, &claim.fix})
      test::ExpectChinese(*each);
    if (claim.place) test::ExpectChinese(claim.place->what);
  }
  return FindClaim(claims, sign) != nullptr;
}

}  // namespace mpnanny::diagnosis

#endif  // MPNANNY_TESTS_RUNS_DETECTOR_FACTS_H_
