// compare_runs on recordings of pairs whose difference is known.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>

#include "tests/runs/recording.h"

namespace mpnanny::test {
namespace {

constexpr double kHalfUlpBf16 = 1.0 / 256;

// A training with `layers` linear layers. Batches come from `data`, weights from `weights`: two
// runs with the same numbers are one trajectory.
struct Training {
  std::string precision = "fp32", ended = "closed", prefix = "";
  int steps = 400, layers = 12, interval = 10, first_step = 0;
  unsigned data = 1, weights = 1;
  double rounding = 0;  // relative, of every figure
  // Factor on a figure of a layer (kind as in tensor_stats), and on the loss.
  std::function<double(int step, int layer, int kind)> factor = nullptr;
  std::function<double(int step, double loss)> loss = nullptr;
  std::function<void(int step, int layer, StatSpec& spec)> change = nullptr;
  uint32_t (*flags)(int step) = nullptr;
  double scale = 0;
};

double Hash(unsigned a, unsigned b, unsigned c, unsigned d) {
  uint64_t x = a * 0x9E3779B97F4A7C15u + b * 0xBF58476D1CE4E5B9u + c * 0x94D049BB133111EBu + d;
  const auto uniform = [&x] {
    x += 0x9E3779B97F4A7C15u;
    uint64_t z = x;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (static_cast<double>((z ^ (z >> 31)) >> 11) + 0.5) / 9007199254740992.0;
  };
  const double radius = std::sqrt(-2 * std::log(uniform()));
  return radius * std::cos(6.283185307179586 * uniform());
}

void Record(const std::string& path, const Training& t, const std::string& name = "run") {
  Recording db(path);
  db.Run(name, t.ended, t.precision);
  std::vector<int64_t> layers;
  for (int l = 0; l < t.layers; ++l) {
    layers.push_back(db.Layer(t.prefix + "blocks." + std::to_string(l)));
  }
  db.Execute("UPDATE layer SET position = layer_id - 1");
  db.Execute("BEGIN");
  const int64_t dtype = t.precision == "bf16" ? 3 : t.precision == "fp16" ? 2 : 1;
  for (int s = t.first_step; s < t.first_step + t.steps; ++s) {
    const auto step = static_cast<unsigned>(s);
    const double batch = Hash(t.data, step, 0, 0);
    double loss = (0.5 + 2.5 * std::exp(-s / 100.0)) * (1 + 0.02 * batch);
    loss *= 1 + t.rounding * Hash(5, step, t.data, 3);
    if (t.loss) loss = t.loss(s, loss);
    StepSpec spec{.loss = loss, .grad_norm = 1 + 0.1 * batch};
    if (t.scale > 0) spec.scale = t.scale;
    if (s % t.interval == 0) spec.flags |= 64;
    if (t.flags) spec.flags |= t.flags(s);
    db.Step(s, spec);
    if (s % t.interval != 0) continue;
    for (int l = 0; l < t.layers; ++l) {
      const auto layer = static_cast<unsigned>(l);
      for (const int kind : {1, 3, 4}) {
        const auto k = static_cast<unsigned>(kind);
        double value = std::exp(0.3 * Hash(t.weights, layer, k, 1));
        if (kind != 4) value *= 1 + 0.03 * Hash(t.data, step, layer, k);
        value *= 1 + t.rounding * Hash(9, step, layer, k);
        if (t.factor) value *= t.factor(s, l, kind);
        StatSpec stat{.kind = kind, .dtype = dtype, .numel = 4096};
        stat.absmax = 4 * value;
        stat.rms = stat.std = value;
        if (t.change) t.change(s, l, stat);
        db.Stat(s, layers[static_cast<size_t>(l)], stat);
      }
    }
  }
  db.Execute("COMMIT");
}

class CompareRunsTest : public ::testing::Test {
 protected:
  Json Compare(const Training& a, const Training& b, const Json& more = Json::object()) {
    Record(folder_.File("a.db"), a);
    Record(folder_.File("b.db"), b);
    return Ask(more);
  }
  Json Ask(const Json& more = Json::object()) {
    Json arguments = {{"a", "a.db"}, {"b", "b.db"}};
    arguments.update(more);
    auto output = Call("compare_runs", arguments, folder_.path());
    EXPECT_TRUE(output) << (output ? "" : output.error().Text());
    if (!output) return Json::object();
    text_ = output->text;
    return output->structured;
  }
  // All reasons as one text.
  static std::string Reasons(const Json& json) { return DumpJson(json["reasons"]); }

  TempFolder folder_;
  std::string text_;
};

TEST_F(CompareRunsTest, RoundingAloneIsNoDifference) {
  const Json json = Compare({}, {.precision = "bf16", .rounding = kHalfUlpBf16});
  EXPECT_EQ(json["verdict"], "acceptable") << Reasons(json);
  EXPECT_TRUE(json["first_difference"].is_null()) << text_;
  EXPECT_EQ(json["parted_tensors"], 0);
  EXPECT_EQ(json["noise"]["format"], "bf16");
  ASSERT_FALSE(json["config"].empty());
  EXPECT_EQ(json["config"][0]["key"], "precision");
}

TEST_F(CompareRunsTest, TheSameRoundingIsADifferenceBetweenTwoFp32Runs) {
  // 1 % on every figure of weights, which do not vary by themselves: too much for FP32.
  const Json json =
      Compare({}, {.factor = [](int, int, int kind) { return kind == 4 ? 1.01 : 1; }});
  ASSERT_FALSE(json["first_difference"].is_null());
  EXPECT_EQ(json["first_difference"]["step"], 0);
}

TEST_F(CompareRunsTest, FirstStepAndLayerOfOneThatParts) {
  const Json json =
      Compare({.steps = 230}, {.precision = "bf16",
                               .steps = 230,
                               .rounding = kHalfUlpBf16,
                               .factor = [](int step, int layer, int kind) {
                                 return step >= 120 && layer == 5 && kind == 1 ? 1.5 : 1;
                               }});
  const Json& first = json["first_difference"];
  ASSERT_FALSE(first.is_null());
  EXPECT_EQ(first["step"], 120);
  EXPECT_EQ(first["layer"], "blocks.5");
  EXPECT_EQ(first["together_at"], 110);
  EXPECT_EQ(json["parted_tensors"], 1);
  EXPECT_EQ(json["layers"][0]["layer"], "blocks.5");
  EXPECT_EQ(json["verdict"], "acceptable") << "the loss is the same: " << Reasons(json);
}

TEST_F(CompareRunsTest, TheFirstPartingIsNarrowedDownAmongManySamples) {
  const Json json =
      Compare({.steps = 3000, .layers = 6},
              {.steps = 3000, .layers = 6, .factor = [](int step, int layer, int kind) {
                 return step >= 1570 && layer == 2 && kind == 3 ? 0.4 : 1;
               }});
  const Json& first = json["first_difference"];
  ASSERT_FALSE(first.is_null());
  EXPECT_EQ(first["step"], 1570);
  EXPECT_EQ(first["layer"], "blocks.2");
  EXPECT_EQ(first["together_at"], 1560);
  EXPECT_EQ(json["common"]["sampled"], 300);
  EXPECT_LT(json["common"]["sampled_read"].get<int>(), 40);
}

TEST_F(CompareRunsTest, TwoSeedsAreComparedByLevel) {
  for (unsigned seed = 2; seed < 7; ++seed) {
    Record(folder_.File("s" + std::to_string(seed) + ".db"),
           {.layers = 40, .data = seed, .weights = seed});
  }
  Record(folder_.File("a.db"), {.layers = 40});
  for (unsigned seed = 2; seed < 7; ++seed) {
    const Json json = Ask({{"b", "s" + std::to_string(seed) + ".db"}});
    EXPECT_NE(json["verdict"], "not_acceptable") << Reasons(json);
    EXPECT_TRUE(json["first_difference"].is_null()) << seed << ": " << text_;
    EXPECT_NE(text_.find("start from other weights"), std::string::npos);
  }
}

TEST_F(CompareRunsTest, AnotherSeedDoesNotHideALayerThatIsTooLarge) {
  const Json json =
      Compare({.layers = 40},
              {.layers = 40, .data = 2, .weights = 2, .factor = [](int, int layer, int kind) {
                 return layer == 17 && kind == 1 ? 60 : 1;
               }});
  ASSERT_FALSE(json["first_difference"].is_null()) << text_;
  EXPECT_EQ(json["first_difference"]["layer"], "blocks.17");
}

TEST_F(CompareRunsTest, NanIsNotAcceptable) {
  const Json json = Compare({}, {.precision = "fp16", .loss = [](int step, double loss) {
                                   return step < 77 ? loss : kNan;
                                 }});
  EXPECT_EQ(json["verdict"], "not_acceptable");
  EXPECT_EQ(json["first_difference"]["step"], 77);
  EXPECT_EQ(json["first_difference"]["b"], "nan");
  EXPECT_NE(Reasons(json).find("first at step 77"), std::string::npos);
  EXPECT_NE(text_.find("diagnose_run"), std::string::npos);
}

TEST_F(CompareRunsTest, ANonFiniteActivationIsTheFirstDifference) {
  const Json json =
      Compare({}, {.precision = "fp16", .change = [](int step, int layer, StatSpec& s) {
                     if (step >= 200 && layer >= 3 && s.kind == 1) s.posinf = 7;
                   }});
  EXPECT_EQ(json["first_difference"]["step"], 200);
  EXPECT_EQ(json["first_difference"]["layer"], "blocks.3");
  EXPECT_EQ(json["first_difference"]["metric"], "activation non-finite");
}

TEST_F(CompareRunsTest, WhatTheScalerSkippedIsNoDifference) {
  const Json json =
      Compare({}, {.precision = "fp16",
                   .change =
                       [](int step, int, StatSpec& s) {
                         if (step == 0 && s.kind == 3) s.posinf = 7;
                       },
                   .flags = [](int step) -> uint32_t { return step == 0 ? 8 | 16 | 4 : 0; },
                   .scale = 1024});
  EXPECT_EQ(json["verdict"], "acceptable") << Reasons(json);
  EXPECT_TRUE(json["first_difference"].is_null()) << text_;
  EXPECT_NE(text_.find("skipped did not count"), std::string::npos);
}

TEST_F(CompareRunsTest, AParameterThatFollowsOnlyRoundingIsLeftOut) {
  // Two parameters of one module; the second one's gradient is 1e-8 of the first's in a, 1e-4 in b.
  const auto with_bias = [&](const std::string& file, double residue, double of_weight) {
    Recording db(folder_.File(file));
    db.Run("r", "closed", "bf16");
    const int64_t weight = db.Layer("conv.weight"), bias = db.Layer("conv.bias");
    for (int64_t step = 0; step < 60; ++step) {
      db.Step(step, {.loss = 2 - 0.01 * static_cast<double>(step), .flags = 64});
      db.Stat(step, weight, {.kind = 3, .dtype = 3, .absmax = of_weight, .rms = of_weight});
      db.Stat(step, bias, {.kind = 3, .dtype = 3, .absmax = residue, .rms = residue});
      db.Stat(step, bias, {.kind = 4, .dtype = 1, .absmax = 1e3 * residue, .rms = residue});
    }
  };
  with_bias("a.db", 1e-8, 1);
  with_bias("b.db", 1e-4, 1);
  with_bias("c.db", 0.5, 1);
  EXPECT_TRUE(Ask()["first_difference"].is_null()) << text_;
  EXPECT_NE(text_.find("nothing but rounding"), std::string::npos);
  EXPECT_EQ(Ask({{"b", "c.db"}})["first_difference"]["layer"], "conv.bias")
      << "one that is no rounding any more is told";
}

TEST_F(CompareRunsTest, WorseByALittleIsUndecidedByMuchNotAcceptable) {
  Record(folder_.File("a.db"), {});
  const auto worse = [](double share) {
    return [share](int step, double loss) { return step < 100 ? loss : loss * (1 + share); };
  };
  Record(folder_.File("b.db"), {.loss = worse(0.03)});
  Record(folder_.File("c.db"), {.loss = worse(0.2)});
  Record(folder_.File("d.db"), {.loss = worse(-0.2)});
  EXPECT_EQ(Ask()["verdict"], "undecided");
  EXPECT_EQ(Ask({{"acceptable", 0.04}})["verdict"], "acceptable");
  EXPECT_EQ(Ask({{"not_acceptable", 0.02}})["verdict"], "not_acceptable");
  const Json much = Ask({{"b", "c.db"}});
  EXPECT_EQ(much["verdict"], "not_acceptable");
  EXPECT_NEAR(much["final"]["worse_by"].get<double>(), 0.2, 0.01);
  EXPECT_GE(much["first_difference"]["step"], 80);
  EXPECT_LE(much["first_difference"]["step"], 120);
  EXPECT_EQ(much["first_difference"]["metric"], "loss");
  // Better is no fault, whatever the size; and what is better is the caller's to say.
  EXPECT_EQ(Ask({{"b", "d.db"}})["verdict"], "acceptable");
  EXPECT_NE(text_.find("more than precision explains"), std::string::npos);
  EXPECT_LT(Ask({{"b", "d.db"}})["final"]["worse_by"], 0);
  EXPECT_GT(Ask({{"b", "d.db"}, {"better", "higher"}})["final"]["worse_by"], 0);
}

TEST_F(CompareRunsTest, AGivenFinalFigureDecides) {
  Record(folder_.File("a.db"), {});
  Record(folder_.File("b.db"), {});
  const Json bad = Ask({{"final_a", 0.80}, {"final_b", 0.60}, {"better", "higher"}});
  EXPECT_EQ(bad["verdict"], "not_acceptable");
  EXPECT_NEAR(bad["final"]["worse_by"].get<double>(), 0.25, 1e-6);
  EXPECT_EQ(Ask({{"final_a", 0.80}, {"final_b", 0.799}, {"better", "higher"}})["verdict"],
            "acceptable");
  EXPECT_FALSE(
      Call("compare_runs", {{"a", "a.db"}, {"b", "b.db"}, {"final_a", 1}}, folder_.path()));
}

TEST_F(CompareRunsTest, StalledIsNotAcceptable) {
  const Json json = Compare({}, {.precision = "bf16", .loss = [](int step, double loss) {
                                   return step < 10 ? loss : 2.9 + 0.01 * std::sin(step);
                                 }});
  EXPECT_EQ(json["verdict"], "not_acceptable");
  EXPECT_NE(Reasons(json).find("stalled"), std::string::npos);
}

TEST_F(CompareRunsTest, InterruptedIsNotAcceptable) {
  const Json json = Compare({}, {.ended = "", .steps = 200});
  EXPECT_EQ(json["verdict"], "not_acceptable");
  EXPECT_NE(Reasons(json).find("interrupted"), std::string::npos);
  EXPECT_EQ(json["common"]["steps"], 200);
}

TEST_F(CompareRunsTest, ALiveRunIsJudgedSoFar) {
  Record(folder_.File("a.db"), {});
  Record(folder_.File("b.db"), {.ended = "", .steps = 350});
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  Recording(folder_.File("b.db"))
      .Execute("UPDATE run SET ended_at=NULL, heartbeat_at=" + std::to_string(now));
  const Json json = Ask();
  EXPECT_EQ(json["verdict"], "undecided") << Reasons(json);
  EXPECT_EQ(json["so_far"], "acceptable") << Reasons(json);
  EXPECT_NE(Reasons(json).find("b still trains (step 349 so far)"), std::string::npos);
  EXPECT_EQ(Ask({{"a", "b.db"}, {"b", "a.db"}})["so_far"], "acceptable");
}

TEST_F(CompareRunsTest, ErrorAlertsAreUndecidedUnlessNotFinite) {
  Record(folder_.File("a.db"), {});
  Record(folder_.File("b.db"), {});
  Record(folder_.File("c.db"), {});
  Recording(folder_.File("b.db"))
      .Execute(
          "INSERT INTO alert (run_id, step, type, severity, message) VALUES"
          " (1, 50, 'GRAD_EXPLOSION', 'ERROR', 'm')");
  Recording(folder_.File("c.db"))
      .Execute(
          "INSERT INTO alert (run_id, step, type, severity, message) VALUES"
          " (1, 50, 'NAN', 'ERROR', 'm')");
  EXPECT_EQ(Ask()["verdict"], "undecided");
  EXPECT_EQ(Ask({{"b", "c.db"}})["verdict"], "not_acceptable");
  // Of a reference that is not sound b is the mend; within a part of the steps nobody judges that.
  EXPECT_EQ(Ask({{"a", "c.db"}, {"b", "a.db"}})["mend"]["outcome"], "mended");
  const Json reference = Ask({{"a", "c.db"}, {"b", "a.db"}, {"steps", "0..300"}});
  EXPECT_EQ(reference["verdict"], "undecided");
  EXPECT_NE(Reasons(reference).find("reference a is not sound"), std::string::npos);
}

TEST_F(CompareRunsTest, PairsWithNothingToCompare) {
  Json json = Compare({.steps = 100}, {.steps = 100, .first_step = 100});
  EXPECT_EQ(json["verdict"], "undecided");
  EXPECT_NE(Reasons(json).find("no step in common: a has steps 0 to 99, b 100 to 199"),
            std::string::npos)
      << Reasons(json);
  // One step.
  Record(folder_.File("one.db"), {.steps = 1});
  json = Ask({{"b", "one.db"}});
  EXPECT_EQ(json["verdict"], "undecided");
  EXPECT_EQ(json["common"]["steps"], 1);
  // Steps without samples, as a log has them.
  Record(folder_.File("log.db"), {.interval = 1 << 30, .first_step = 1});
  Ask({{"b", "log.db"}});
  EXPECT_NE(text_.find("b has no statistics of tensors"), std::string::npos) << text_;
  Record(folder_.File("none.db"), {.steps = 0});
  json = Ask({{"b", "none.db"}});
  EXPECT_EQ(json["verdict"], "undecided");
  EXPECT_NE(Reasons(json).find("No step was recorded in b"), std::string::npos);
  EXPECT_EQ(Ask({{"a", "none.db"}})["verdict"], "undecided");
  const auto nan = [](int, double) { return kNan; };
  Record(folder_.File("nan.db"), {.loss = nan});
  Record(folder_.File("nan2.db"), {.loss = nan});
  EXPECT_EQ(Ask({{"b", "nan.db"}})["verdict"], "not_acceptable");
  json = Ask({{"a", "nan.db"}, {"b", "nan2.db"}});
  EXPECT_EQ(json["verdict"], "not_acceptable");
  EXPECT_NE(Reasons(json).find("reference a is not sound"), std::string::npos);
  EXPECT_EQ(Ask({{"steps", "5000..6000"}})["verdict"], "undecided");
}

TEST_F(CompareRunsTest, LayersOfOneRunOnlyAreTold) {
  Record(folder_.File("a.db"), {.layers = 8});
  Record(folder_.File("b.db"), {.prefix = "module.", .layers = 6});
  Json json = Ask();
  EXPECT_EQ(json["common"]["layers"], 6) << "a wrapper's prefix does not count";
  EXPECT_EQ(json["common"]["only_a_total"], 2);
  EXPECT_EQ(json["common"]["only_a"][0], "blocks.6");
  Record(folder_.File("c.db"), {.prefix = "other."});
  json = Ask({{"b", "c.db"}});
  EXPECT_EQ(json["common"]["layers"], 8) << "nor does the part of a program that it is";
  Recording(folder_.File("c.db")).Execute("UPDATE layer SET name = 'cell' || layer_id");
  json = Ask({{"b", "c.db"}});
  EXPECT_EQ(json["common"]["layers"], 0);
  EXPECT_EQ(json["verdict"], "acceptable") << "the losses are the same";
  EXPECT_NE(text_.find("only in a"), std::string::npos);
}

TEST_F(CompareRunsTest, WrongArguments) {
  Record(folder_.File("a.db"), {});
  Json json = Ask({{"b", "a.db#1"}});
  EXPECT_EQ(json["verdict"], "undecided");
  EXPECT_NE(Reasons(json).find("one and the same"), std::string::npos);
  auto missing = Call("compare_runs", {{"a", "a.db"}, {"b", "no.db"}}, folder_.path());
  ASSERT_FALSE(missing);
  EXPECT_TRUE(missing.error().message.starts_with("b: ")) << missing.error().message;
  EXPECT_FALSE(Call("compare_runs",
                    {{"a", "a.db"}, {"b", "a.db"}, {"acceptable", 0.5}, {"not_acceptable", 0.1}},
                    folder_.path()));
  // The FP16 run given as the reference.
  Record(folder_.File("h.db"), {.precision = "fp16"});
  json = Ask({{"a", "h.db"}, {"b", "a.db"}});
  EXPECT_NE(Reasons(json).find("swap"), std::string::npos);
}

TEST_F(CompareRunsTest, ManyPartingLayersWithLongNamesFitTheAnswer) {
  Training a{.prefix = std::string(300, 'n') + "\x1b[31m\n\"|", .steps = 60, .layers = 300};
  Training b = a;
  b.factor = [](int, int, int kind) { return kind == 1 ? 3.0 : 1; };
  const Json json = Compare(a, b);
  EXPECT_EQ(json["parted_tensors"], 300);
  EXPECT_GT(json["layers"].size(), 1u);
  EXPECT_EQ(json["layers"].size() + json["layers_left_out"].get<size_t>(), 300u);
}

}  // namespace
}  // namespace mpnanny::test
