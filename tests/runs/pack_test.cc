// `mpnanny pack`: the file says the same as the run, is not larger than asked for, gives no name
// away when it should not, and takes nobody's place.
#include "engines/pack/pack.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "engines/pack/redaction.h"
#include "tests/runs/run_tools.h"

namespace mpnanny::test {
namespace fs = std::filesystem;
namespace {

constexpr const char* kNames[] = {"secret_encoder.blocks.0.ffn.wo", "secret_encoder.head",
                                  "secret_encoder.norm"};

// A run of 3,000 steps that breaks at 2,500; a sample every second step.
void BrokenRun(const std::string& path, const std::string& ended = "exception", int64_t rank = 0,
               int64_t world_size = 1) {
  Recording db(path);
  db.Run("project_apollo", ended);
  db.Execute("UPDATE run SET rank=" + std::to_string(rank) +
             ", world_size=" + std::to_string(world_size) +
             R"(, environment='{"host":"apollo-node-7","script":"/home/jane/apollo/train.py",)"
             R"("torch":"2.13.0","git_revision":"abcdef"}', notes='["jane is watching head"]')");
  std::vector<int64_t> layers;
  for (const char* name : kNames)
    layers.push_back(db.Layer(name, "/home/jane/apollo/model.py:62", "ApolloBlock"));
  db.Execute("BEGIN");
  for (int64_t step = 0; step < 3000; ++step) {
    const bool bad = step >= 2500;
    db.Step(step, {.loss = bad ? kNan : 2.0 - 0.0005 * static_cast<double>(step),
                   .scale = 1024.0,
                   .grad_norm = bad ? kNan : 1.0,
                   .flags = (bad ? 12u : 0u) | (step % 2 == 0 ? 64u : 0u)});
    if (step % 2 != 0) continue;
    for (const int64_t layer : layers) {
      for (const int64_t kind : {0, 1, 3, 4}) {
        const bool nan = bad && layer == layers[0] && kind == 1;
        db.Stat(step, layer,
                {.kind = kind,
                 .nan = nan ? 5 : 0,
                 .absmax = step == 1222 && layer == layers[1] ? 9e3 : 1.0 + 1e-4 * (step % 97)});
      }
    }
  }
  db.Alert(2500, {.type = "NAN",
                  .layer = layers[0],
                  .kind = 1,
                  .producer = 1,
                  .message = "NaN in secret_encoder.blocks.0.ffn.wo"});
  db.Alert(2500, {.type = "LOSS_NAN", .phase = "loss"});
  db.Execute("COMMIT");
  db.Execute(R"(INSERT INTO event VALUES ()" + std::to_string(db.run()) +
             R"(,1,1.7e9,'optimizer','{"kind":"AdamW","eps":1e-8,"group":"secret_encoder.head",)"
             R"("file":"/home/jane/apollo/train.py"}'))");
}

class PackTest : public ::testing::Test {
 protected:
  Result<pack::PackReport> Pack(pack::PackOptions options) {
    options.run = folder_.File(options.run);
    options.output = folder_.File(options.output);
    return pack::Pack(options, AllowedRoots::Unrestricted(), {});
  }
  Json Ask(const std::string& tool, const std::string& run) {
    auto output = Call(tool, {{"run", run}}, folder_.path());
    EXPECT_TRUE(output) << (output ? "" : output.error().Text());
    return output ? output->structured : Json::object();
  }
  // The diagnosis without what names the file.
  Json Diagnosis(const std::string& run) {
    Json diagnosis = Ask("diagnose_run", run);
    for (const char* field : {"run", "next_measurement"}) diagnosis.erase(field);
    return diagnosis;
  }

  TempFolder folder_;
};

TEST_F(PackTest, TheFileSaysTheSameAsTheRun) {
  BrokenRun(folder_.File("run.db"));
  auto report = Pack({.run = "run.db", .output = "carry.db", .max_bytes = 0});
  ASSERT_TRUE(report) << report.error().Text();
  EXPECT_EQ(report->steps, 3000);
  EXPECT_EQ(report->sample_rows, 1500 * 12);
  EXPECT_EQ(report->rows_left_out, 0);
  EXPECT_EQ(Diagnosis("carry.db"), Diagnosis("run.db"));
  struct stat status {};
  ASSERT_EQ(stat(folder_.File("carry.db").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  for (const char* suffix : {"-wal", "-shm", "-journal", "-ring"}) {
    EXPECT_FALSE(fs::exists(folder_.File("carry.db") + suffix)) << suffix;
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 2);
}

TEST_F(PackTest, AKilledRunKeepsWhatOnlyItsFlightRecorderKnew) {
  {
    Recording db(folder_.File("run.db"));
    db.Run("r", "", "fp16", 1.6e9);
    db.Layer("fc1");
    db.Layer("fc2");
    for (int64_t step = 0; step < 40; ++step) db.Step(step, {.loss = 1.0, .scale = 1024.0});
  }
  RingFile ring(folder_.File("run.db"), 1, 1.6e9);
  for (int64_t step = 38; step < 50; ++step) {
    ring.Step(step, step < 45 ? 1.0 : kNan, step < 45 ? 0 : 1, step < 45 ? -1 : 2);
    ring.Sample(step, 2, 1, 5.0, step < 45 ? 0 : 3);
  }
  ring.Write();
  ASSERT_TRUE(Pack({.run = "run.db", .output = "carry.db"}));
  const Json before = Ask("run_summary", "run.db");
  const Json after = Ask("run_summary", "carry.db");
  EXPECT_EQ(before["steps"], 50);
  for (const char* field : {"steps", "loss", "status", "nonfinite_losses", "sampled_steps"}) {
    EXPECT_EQ(after[field], before[field]) << field;
  }
  const Json diagnosis = Diagnosis("carry.db");
  EXPECT_EQ(diagnosis["first_bad"]["layer"], "fc2");
  EXPECT_EQ(diagnosis["first_bad"], Diagnosis("run.db")["first_bad"]);
  EXPECT_EQ(diagnosis["hypotheses"], Diagnosis("run.db")["hypotheses"]);
  // Packed once more it is still the same.
  ASSERT_TRUE(Pack({.run = "carry.db", .output = "again.db"}));
  EXPECT_EQ(Diagnosis("again.db"), diagnosis);
}

TEST_F(PackTest, ThinnedToASizeWithExtremesAndAllNearAlerts) {
  BrokenRun(folder_.File("run.db"));
  auto whole = Pack({.run = "run.db", .output = "whole.db", .max_bytes = 0});
  ASSERT_TRUE(whole);
  const int64_t limit = whole->bytes / 2;
  auto thin = Pack({.run = "run.db", .output = "thin.db", .max_bytes = limit});
  ASSERT_TRUE(thin) << thin.error().Text();
  EXPECT_LE(thin->bytes, limit);
  EXPECT_GT(thin->rows_left_out, 0);
  EXPECT_EQ(thin->sample_rows + thin->rows_left_out, whole->sample_rows);
  EXPECT_EQ(thin->steps, 3000);
  Recording db(folder_.File("thin.db"));
  const auto count = [&](const std::string& where) {
    sqlite3_stmt* statement = nullptr;
    sqlite3_prepare_v2(db.handle(), ("SELECT count(*) FROM tensor_stats WHERE " + where).c_str(),
                       -1, &statement, nullptr);
    EXPECT_EQ(sqlite3_step(statement), SQLITE_ROW);
    const int64_t n = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return n;
  };
  EXPECT_EQ(count("step BETWEEN 2300 AND 2700"), 201 * 12) << "near the alert";
  EXPECT_EQ(count("absmax=9000"), 4) << "the extreme";
  EXPECT_EQ(count("step=20"), 12) << "one in ten is whole";
  EXPECT_LT(count("step=22"), 12);
  const Json before = Diagnosis("run.db");
  const Json after = Diagnosis("thin.db");
  EXPECT_EQ(after["verdict"], before["verdict"]);
  EXPECT_EQ(after["first_bad"], before["first_bad"]);
  // The best is the same; a diagnosis looks at some samples only, and of fewer there are more that
  // hold an extreme, so that weaker ones may join.
  ASSERT_FALSE(before["hypotheses"].empty());
  EXPECT_EQ(after["hypotheses"][0], before["hypotheses"][0]);
  // What must stay is larger than this: said, not cut.
  auto least = Pack({.run = "run.db", .output = "least.db", .max_bytes = 10'000});
  ASSERT_TRUE(least);
  ASSERT_FALSE(least->notes.empty());
  EXPECT_NE(least->notes.back().find("larger than asked for"), std::string::npos);
  EXPECT_LT(least->bytes, thin->bytes);
}

TEST_F(PackTest, RedactedNothingIsFoundAndItIsStillDiagnosed) {
  BrokenRun(folder_.File("run.db"));
  ASSERT_TRUE(Pack({.run = "run.db", .output = "open.db"}));
  ASSERT_TRUE(Pack({.run = "run.db", .output = "hidden.db", .redact = true}));
  const std::string open = ReadAll(folder_.File("open.db"));
  const std::string hidden = ReadAll(folder_.File("hidden.db"));
  for (const char* word : {"secret_encoder", "ffn", "jane", "apollo", "Apollo", "model.py",
                           "train.py", "node-7", "abcdef", "project"}) {
    EXPECT_EQ(hidden.find(word), std::string::npos) << word;
  }
  EXPECT_NE(open.find("secret_encoder"), std::string::npos) << "the search finds nothing at all";
  EXPECT_NE(hidden.find("AdamW"), std::string::npos);
  const Json before = Diagnosis("run.db");
  const Json after = Diagnosis("hidden.db");
  EXPECT_EQ(after["verdict"], before["verdict"]);
  EXPECT_EQ(after["first_bad"]["step"], before["first_bad"]["step"]);
  EXPECT_EQ(after["first_bad"]["phase"], before["first_bad"]["phase"]);
  EXPECT_EQ(after["first_bad"]["layer"], pack::RedactedLayer(kNames[0]));
  EXPECT_EQ(after["first_bad"]["source"], pack::HashedName("/home/jane/apollo/model.py") + ":62");
}

TEST_F(PackTest, HashesAreThoseOfTheMonitorsMinimalRecord) {
  // hashlib.blake2b(b"head", digest_size=5).hexdigest()
  EXPECT_EQ(pack::HashedName("head"), "hfa4b699cb5");
  EXPECT_EQ(pack::RedactedLayer("head.0.head"), "hfa4b699cb5.0.hfa4b699cb5");
  EXPECT_EQ(pack::RedactedType("Linear"), "Linear");
  EXPECT_EQ(pack::RedactedJson("no json"), "");
  EXPECT_EQ(pack::RedactedEnvironment("[1]"), "{}");
}

TEST_F(PackTest, WhatAFieldHoldsDecidesWhatOfItIsHidden) {
  const std::string name = pack::HashedName("jane"), file = pack::HashedName("/jane/a.py");
  const struct {
    std::string given, redacted;
  } fields[] = {
      {R"({"loss":"NaN","norm":"inf","index":3,"scaled":true})", ""},
      {R"({"dtype":"float8_e4m3fn","phase":"forward","from":"a state"})", ""},
      {R"-({"what":"gradient","followed":["(optimizer)"]})-", ""},
      {R"({"operator":"aten.mul.Tensor","restarts":{"aten.add_.Tensor":2}})", ""},
      {R"([{"name":"","error":"inf"},{"error":0.5}])", ""},  // a figure here, a text elsewhere
      {R"({"operator":"jane.jane"})", R"({"operator":")" + name + "." + name + R"("})"},
      {R"({"inputs_from":[["aten.mm.default","/jane/a.py:3"]]})",
       R"({"inputs_from":[["aten.mm.default",")" + file + R"(:3"]]})"},
      {R"({"restarts":{"jane":1}})", R"({"restarts":{")" + name + R"(":1}})"},
      {R"({"at":"/jane/a.py:3"})", R"({"at":")" + file + R"(:3"})"},
      {R"({"parameters":["jane.0"],"not":"jane"})",
       R"({"parameters":[")" + name + R"(.0"],"not":")" + name + R"("})"},
      {R"({"loss":"jane","what":"jane"})",
       R"({"loss":")" + name + R"(","what":")" + name + R"("})"},
      // A key that the monitor does not write, and a word of its own under it.
      {R"({"jane":{"jane":"forward"}})",
       R"({")" + name + R"(":{")" + name + R"(":")" + pack::HashedName("forward") + R"("}})"},
  };
  for (const auto& field : fields) {
    const std::string& expected = field.redacted.empty() ? field.given : field.redacted;
    EXPECT_EQ(pack::RedactedJson(field.given), expected);
  }
  // It looks like a key of a program's, and is a name.
  EXPECT_EQ(pack::RedactedJson(R"({"secret_encoder":1})").find("secret_encoder"),
            std::string::npos);
}

TEST_F(PackTest, AllRanksGoIntoOneFile) {
  for (int64_t rank = 0; rank < 3; ++rank) {
    BrokenRun(folder_.File("m.rank" + std::to_string(rank) + ".db"), "exception", rank, 3);
  }
  auto report = Pack({.run = "m.rank0.db", .output = "carry.db"});
  ASSERT_TRUE(report) << report.error().Text();
  EXPECT_EQ(report->ranks, 3);
  const Json before = Ask("run_summary", "m.rank0.db");
  const Json after = Ask("run_summary", "carry.db");
  for (const char* field : {"steps", "loss", "skipped_steps", "alerts", "reasons"}) {
    EXPECT_EQ(after[field], before[field]) << field;
  }
  EXPECT_EQ(Ask("diagnose_run", "carry.db")["first_bad"]["ranks"], (Json{0, 1, 2}));
}

TEST_F(PackTest, NothingIsOverwrittenUnasked) {
  BrokenRun(folder_.File("run.db"));
  folder_.Write("mine.db", "precious");
  auto refused = Pack({.run = "run.db", .output = "mine.db"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(ReadAll(folder_.File("mine.db")), "precious");
  EXPECT_NE(refused.error().hint.find("--force"), std::string::npos);
  ASSERT_TRUE(Pack({.run = "run.db", .output = "mine.db", .force = true}));
  EXPECT_EQ(Ask("run_summary", "mine.db")["steps"], 3000);
  // The run itself, by whatever name, not even when asked.
  const std::string run = ReadAll(folder_.File("run.db"));
  fs::create_symlink(folder_.File("run.db"), folder_.File("link.db"));
  for (const char* output : {"run.db", "link.db", "run.db-wal"}) {
    EXPECT_FALSE(Pack({.run = "run.db", .output = output, .force = true})) << output;
  }
  EXPECT_EQ(ReadAll(folder_.File("run.db")), run);
  EXPECT_FALSE(Pack({.run = "run.db", .output = ""}));
  EXPECT_FALSE(Pack({.run = "run.db", .output = "no/such/folder/x.db"}));
  EXPECT_FALSE(Pack({.run = "gone.db", .output = "x.db"}));
  fs::create_symlink(folder_.File("nowhere"), folder_.File("dangling.db"));
  EXPECT_FALSE(Pack({.run = "run.db", .output = "dangling.db"}));
  for (const auto& entry : fs::directory_iterator(folder_.path())) {
    EXPECT_EQ(entry.path().string().find(".part"), std::string::npos) << entry.path();
  }
}

}  // namespace
}  // namespace mpnanny::test
