// What shadow steps tell: rows of version 2, alerts of findings, and files of version 1.
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <string>

#include "base/data_files.h"
#include "base/os_mapped_file.h"
#include "base/process_info.h"
#include "monitor/core/recorder.h"
#include "tests/monitor_core/observed.h"

namespace mpnanny {

std::span<const EmbeddedFile> EmbeddedSchema();

namespace {

namespace fs = std::filesystem;

class ShadowTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("mpnanny-shadow-" + std::to_string(CurrentProcess()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    path_ = (folder_ / "a.db").string();
  }
  void TearDown() override {
    recorder_.reset();
    fs::remove_all(folder_);
  }

  std::unique_ptr<Recorder> Open() const {
    RecorderOptions options;
    options.path = path_;
    options.run.name = "test";
    Result<std::unique_ptr<Recorder>> recorder = Recorder::Open(std::move(options));
    EXPECT_TRUE(recorder) << (recorder ? "" : recorder.error().Text());
    if (!recorder) return nullptr;
    for (const char* name : {"first", "second"}) {
      LayerRow layer;
      layer.name = name;
      (*recorder)->AddLayer(std::move(layer), true);
    }
    return *std::move(recorder);
  }

  void Begin(int64_t step) {
    if (!recorder_) recorder_ = Open();
    recorder_->BeginStep(step);
  }

  static ShadowFindingRow Finding(int64_t step, const std::string& kind = "amplified") {
    ShadowFindingRow row;
    row.step = step;
    row.kind = Word<FindingKind>(kind);
    row.severity = Severity::kWarning;
    row.phase = Phase::kForward;
    row.layer = 2;
    row.op = "aten.sub.Tensor";
    row.source = "train.py:40";
    row.dtype = "float16";
    row.share = 1;
    row.error_in = 1e-3;
    row.error_out = 0.5;
    row.proof = Proof::kNotTested;
    return row;
  }

  std::string Ask(const std::string& sql) const {
    if (recorder_) recorder_->Flush();
    return AskAll(path_, sql, "|");
  }
  // All tables and columns, but those of version 2.
  std::string SchemaOfVersion1() const {
    return Ask(
        "SELECT m.name || '.' || p.name || ' ' || p.type FROM sqlite_schema m, "
        "pragma_table_info(m.name) p WHERE m.type = 'table' AND m.name NOT LIKE 'shadow_%' AND "
        "m.name NOT IN ('rank_figures', 'collective') AND NOT (m.name = 'alert' AND p.name = "
        "'detail') ORDER BY m.name, p.cid");
  }
  void MakeVersion1() const {
    ASSERT_TRUE(EmbeddedSchema()[0].path.ends_with("0001.sql"));
    AskEach(std::string(EmbeddedSchema()[0].text));
    AskEach(
        "INSERT INTO run (name, started_at, ended_at) VALUES ('old', 1, 2);INSERT INTO alert "
        "(run_id, step, type, severity, message) VALUES (1, 7, 'NAN', 'ERROR', 'x');INSERT INTO "
        "meaning VALUES ('tensor_stats.kind', '0', 'input')");
  }
  void AskEach(const std::string& statements) const {
    sqlite3* connection = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &connection), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(connection, statements.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(connection);
    sqlite3_close(connection);
  }

  static constexpr const char* kVersion =
      "SELECT max(CAST(value AS INTEGER)) FROM meaning WHERE what = 'schema.version'";

  fs::path folder_;
  std::string path_;
  std::unique_ptr<Recorder> recorder_;
};

TEST_F(ShadowTest, ANewFileHasVersion3AndReadersOfVersion1AcceptIt) {
  Begin(0);
  EXPECT_EQ(Ask("PRAGMA user_version"), "1");  // all that they look at
  EXPECT_EQ(Ask(kVersion), "3");
  const std::string now = SchemaOfVersion1();
  ASSERT_TRUE(recorder_->Close("closed"));
  recorder_.reset();
  fs::remove(path_);
  MakeVersion1();
  EXPECT_EQ(SchemaOfVersion1(), now);
}

TEST_F(ShadowTest, AFileOfVersion1IsBroughtToVersion3AndKeepsItsRows) {
  MakeVersion1();
  EXPECT_EQ(Ask("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'shadow_%'"), "0");
  for (int again = 0; again < 2; ++again) {
    Begin(0);
    ASSERT_NE(recorder_, nullptr);
    EXPECT_EQ(recorder_->failure(), "");
    EXPECT_GT(recorder_->ShadowFinding(0, Finding(0)), 0);
    recorder_->EndStep({});
    ASSERT_TRUE(recorder_->Close("closed"));
    recorder_.reset();
  }
  EXPECT_EQ(Ask(kVersion), "3");
  EXPECT_EQ(Ask("PRAGMA user_version"), "1");
  EXPECT_EQ(Ask("SELECT name FROM run ORDER BY run_id"), "old|test|test");
  EXPECT_EQ(Ask("SELECT run_id || ' ' || type || ' ' || (detail IS NULL) FROM alert"),
            "1 NAN 1|2 SHADOW_AMPLIFIED 0|3 SHADOW_AMPLIFIED 0");
  EXPECT_EQ(Ask("SELECT run_id || ' ' || finding_id FROM shadow_finding"), "2 1|3 2");
  EXPECT_EQ(Ask("SELECT json_extract(detail, '$.finding') FROM alert WHERE detail NOT NULL"),
            "1|2");  // the file's ids, not the run's
}

TEST_F(ShadowTest, AFileThatOnlyANewerMonitorUnderstandsIsLeftAlone) {
  MakeVersion1();
  Ask("PRAGMA user_version = 2");
  RecorderOptions options;
  options.path = path_;
  const auto recorder = Recorder::Open(std::move(options));
  ASSERT_FALSE(recorder);
  EXPECT_EQ(recorder.error().kind, ErrorKind::kDataCorrupt);
  EXPECT_EQ(Ask("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'shadow_%'"), "0");
}

TEST_F(ShadowTest, EveryColumnHasAMeaning) {
  Begin(0);
  EXPECT_EQ(Ask("SELECT m.name || '.' || p.name FROM sqlite_schema m, pragma_table_info(m.name) p "
                "WHERE m.name IN ('shadow_step', 'shadow_finding', 'shadow_profile') AND p.name "
                "NOT IN ('run_id', 'layer_id', 'finding_id') AND NOT EXISTS (SELECT 1 FROM meaning "
                "WHERE value = m.name || '.' || p.name OR what = m.name || '.' || p.name)"),
            "shadow_step.step|shadow_profile.step|shadow_profile.dtype");
}

TEST_F(ShadowTest, AFindingThatIsSeenAgainIsOneRowWithTheWorseFigures) {
  Begin(10);
  const int64_t id = recorder_->ShadowFinding(0, Finding(10));
  EXPECT_EQ(id, 1);
  EXPECT_EQ(recorder_->ShadowFinding(0, Finding(10, "flushed")), 2);
  ShadowFindingRow tested = Finding(10);  // the same step: a test of the same sighting
  tested.proof = Proof::kProven;
  tested.cure = R"({"lines":["train.py:39"]})";
  tested.reach = R"([{"what":"loss","name":"","error":0.1}])";
  EXPECT_EQ(recorder_->ShadowFinding(id, tested), id);
  EXPECT_EQ(Ask("SELECT repeats || ' ' || precision || ' ' || reach FROM shadow_finding WHERE kind "
                "= 'amplified'"),
            "1 proven " + tested.reach);
  recorder_->EndStep({});

  Begin(20);
  ShadowFindingRow better = Finding(20);
  better.severity = Severity::kInfo;
  better.error_out = 0.01;
  EXPECT_EQ(recorder_->ShadowFinding(id, better), id);
  recorder_->EndStep({});

  Begin(30);
  ShadowFindingRow worse = Finding(30);
  worse.severity = Severity::kError;
  worse.error_out = std::numeric_limits<double>::infinity();
  worse.shape = "[4]";
  EXPECT_EQ(recorder_->ShadowFinding(id, worse), id);
  recorder_->EndStep({});
  EXPECT_EQ(Ask("SELECT step || ' ' || last_step || ' ' || repeats || ' ' || severity || ' ' || "
                "precision || ' ' || cure || ' ' || shape || ' ' || (error_out IS NULL) || ' ' || "
                "layer_id FROM shadow_finding WHERE kind = 'amplified'"),
            "10 30 3 ERROR proven {\"lines\":[\"train.py:39\"]} [4] 1 2");
  EXPECT_EQ(Ask("SELECT step || ' ' || repeats FROM shadow_finding WHERE kind = 'flushed'"),
            "10 1");
}

TEST_F(ShadowTest, ASevereFindingIsOneAlertThatFollowsIt) {
  Begin(1);
  ShadowFindingRow mild = Finding(1);
  mild.severity = Severity::kInfo;
  const int64_t first = recorder_->ShadowFinding(0, mild);
  ShadowFindingRow other = Finding(1);
  other.source = "a \"b\".py:41";
  recorder_->ShadowFinding(0, other);  // the same layer and kind, another line
  std::vector<AlertRow> told = recorder_->EndStep({});
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].type, AlertType::kShadowAmplified);
  EXPECT_EQ(told[0].layer, 2);
  EXPECT_EQ(told[0].value, 0.5);
  EXPECT_EQ(Ask("SELECT json_extract(detail, '$.source') || json_extract(detail, '$.finding') "
                "FROM alert"),
            "a \"b\".py:412");

  Begin(5);
  recorder_->ShadowFinding(first, Finding(5));  // now it is severe
  told = recorder_->EndStep({});
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].step, 5);
  EXPECT_FALSE(recorder_->dense());

  Begin(5000);  // long after: still the same alert
  ShadowFindingRow worse = Finding(5000);
  worse.severity = Severity::kError;
  worse.cure = R"({"what":"float32"})";
  worse.proof = Proof::kProven;
  recorder_->ShadowFinding(first, worse);
  EXPECT_TRUE(recorder_->EndStep({}).empty());
  EXPECT_EQ(Ask("SELECT step || ' ' || last_step || ' ' || repeats || ' ' || severity || ' ' || "
                "json_extract(detail, '$.cure.what') || ' ' || json_extract(detail, '$.precision') "
                "FROM alert WHERE step = 5"),
            "5 5000 2 ERROR float32 proven");
  EXPECT_EQ(Ask("SELECT count(*) FROM alert"), "2");
}

TEST_F(ShadowTest, EveryKindHasItsTypeAndAnErrorMakesTheNextStepsDense) {
  Begin(1);
  for (const char* kind : {"range", "undefined", "amplified", "lost_change", "flushed", "integers",
                           "clipped", "diverged", "no_gradient"}) {
    ShadowFindingRow row = Finding(1, kind);
    row.severity = Severity::kError;
    recorder_->ShadowFinding(0, row);
  }
  EXPECT_EQ(recorder_->ShadowFinding(0, Finding(1, "of another version")), 10);  // a row, no alert
  EXPECT_EQ(Types(recorder_->EndStep({})),
            "SHADOW_RANGE SHADOW_UNDEFINED SHADOW_AMPLIFIED SHADOW_LOST_CHANGE SHADOW_FLUSHED "
            "SHADOW_INTEGERS SHADOW_CLIPPED SHADOW_DIVERGED PROTOCOL");
  EXPECT_TRUE(recorder_->dense());
  EXPECT_EQ(Ask("SELECT count(*) FROM shadow_finding"), "10");
}

TEST_F(ShadowTest, FindingsBeyondTheirNumberAreLeftOutAndToldOnce) {
  Begin(1);
  ShadowFindingRow row = Finding(1);
  row.severity = Severity::kInfo;
  for (size_t i = 0; i < ShadowFindings::kFindings; ++i)
    ASSERT_GT(recorder_->ShadowFinding(0, row), 0);
  EXPECT_EQ(recorder_->ShadowFinding(0, row), 0);
  EXPECT_EQ(recorder_->ShadowFinding(0, row), 0);
  EXPECT_EQ(recorder_->ShadowFinding(7, row), 7);
  recorder_->EndStep({});
  EXPECT_EQ(Ask("SELECT count(*) FROM shadow_finding"), std::to_string(ShadowFindings::kFindings));
  EXPECT_EQ(Ask("SELECT count(*) FROM event WHERE type = 'shadow_findings_left_out'"), "1");
}

TEST_F(ShadowTest, AStepAndItsProfileAreRowsAndWhatIsNotFiniteIsNull) {
  Begin(3);
  ShadowStepRow step;
  step.step = 3;
  step.why = "first";
  step.seconds = 2;
  step.plain_seconds = std::numeric_limits<double>::quiet_NaN();
  step.operators = 900;
  recorder_->ShadowStep(step);
  step.operators = 901;
  recorder_->ShadowStep(step);  // told again: the newer one counts
  ShadowProfileRow profile;
  profile.step = 3;
  profile.layer = 2;
  profile.phase = 1;
  profile.error = 0.25;
  profile.bf16 = std::numeric_limits<double>::infinity();
  recorder_->ShadowProfile(profile);
  profile.layer = 99;  // not this run's
  recorder_->ShadowProfile(profile);
  ShadowFindingRow finding = Finding(3);
  finding.layer = 99;
  recorder_->ShadowFinding(0, finding);
  recorder_->EndStep({});
  EXPECT_EQ(
      Ask("SELECT why || ' ' || seconds || ' ' || (plain_seconds IS NULL) || ' ' || operators "
          "FROM shadow_step"),
      "first 2.0 1 901");
  EXPECT_EQ(Ask("SELECT layer_id || ' ' || phase || ' ' || error || ' ' || (bf16 IS NULL) FROM "
                "shadow_profile"),
            "2 1 0.25 1");
  EXPECT_EQ(Ask("SELECT layer_id FROM shadow_finding"), "NULL");
}

}  // namespace
}  // namespace mpnanny
