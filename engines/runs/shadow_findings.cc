// Findings of shadow steps: read, merged over ranks, put in the order in which they are shown.
#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "base/json.h"
#include "engines/runs/alerts.h"
#include "engines/runs/parts.h"
#include "engines/runs/rank_layers.h"
#include "engines/runs/relation_text.h"
#include "engines/runs/shadow.h"

namespace mpnanny::runs {
namespace {

constexpr size_t kMostFindings = 20'000;
constexpr size_t kMostOperands = 4;
constexpr size_t kMostListed = 32;  // entries of a list within one finding
constexpr size_t kMostCallers = 4;
constexpr size_t kTextBytes = 300;
constexpr std::string_view kTable = "shadow_finding";

// The columns of a finding in the order that FindingOf() reads them.
std::string Columns(const Database& database) {
  // Bounded where they are read: the file may hold anything. Of a path its end counts.
  std::string columns =
      database.ColumnsOrNull(kTable, {"finding_id", "step", "last_step", "repeats", "layer_id",
                                      "share", "magnitude", "error_in", "error_out"});
  for (const std::string_view text :
       {"kind", "severity", "phase", "operator", "dtype", "shape", "precision"}) {
    columns += ", substr(" + database.ColumnsOrNull(kTable, {text}) + ", 1, 120)";
  }
  const std::string source = database.ColumnsOrNull(kTable, {"source"});
  return columns + ", CASE WHEN length(" + source + ") > 240 THEN substr(" + source + ", length(" +
         source + ") - 239) ELSE " + source + " END";
}

constexpr int kRunColumn = 17;  // after them

ShadowFinding FindingOf(const Statement& row) {
  ShadowFinding finding;
  finding.finding_id = row.IntOr(0, 0);
  finding.step = row.IntOr(1, 0);
  finding.last_step = row.Int(2);
  finding.repeats = row.IntOr(3, 1);
  finding.layer_id = row.Int(4);
  finding.share = row.Real(5);
  finding.magnitude = row.Real(6);
  finding.error_in = row.Real(7);
  finding.error_out = row.Real(8);
  finding.kind = Word<FindingKind>(row.TextOr(9));
  finding.severity = Word<Severity>(row.TextOr(10));
  finding.phase = Word<Phase>(row.TextOr(11));
  finding.op = row.TextOr(12);
  finding.dtype = row.TextOr(13);
  finding.shape = row.TextOr(14);
  finding.proof = Word<Proof>(row.TextOr(15));
  finding.source = row.TextOr(16);
  return finding;
}

bool HasFindings(const Database& database) {
  return database.HasColumn(kTable, "run_id") && database.HasColumn(kTable, "step") &&
         database.HasColumn(kTable, "finding_id");
}

// Errors of values by their order, then all else.
int KindRank(const Word<FindingKind>& kind) {
  const FindingKind rest = FindingKind::kNoGradient;
  return static_cast<int>(std::min(kind.value().value_or(rest), rest));
}

std::string TextOf(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_string()
             ? found->get<std::string>().substr(0, kTextBytes)
             : "";
}

std::optional<double> NumberOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? std::optional(found->get<double>())
                                                     : std::nullopt;
}

std::vector<std::string> TextsOf(const Json& object, const char* key) {
  std::vector<std::string> texts;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return texts;
  for (const Json& text : *found) {
    if (text.is_string() && texts.size() < kMostListed) {
      texts.push_back(text.get<std::string>().substr(0, kTextBytes));
    }
  }
  return texts;
}

std::optional<ShadowCure> CureOf(const Json& json) {
  if (!json.is_object() || json.empty()) return std::nullopt;
  ShadowCure cure;
  cure.lines = TextsOf(json, "lines");
  cure.operators = TextsOf(json, "operators");
  cure.what = TextOf(json, "what");
  cure.error_before = NumberOf(json, "error_before");
  cure.error_after = NumberOf(json, "error_after");
  return cure;
}

std::vector<ShadowReach> ReachOf(const Json& json) {
  std::vector<ShadowReach> reach;
  if (!json.is_array()) return reach;
  for (const Json& entry : json) {
    if (!entry.is_object() || reach.size() >= kMostListed) continue;
    reach.push_back({TextOf(entry, "what"), TextOf(entry, "name"), NumberOf(entry, "error")});
  }
  return reach;
}

// A number, or the word of one that is not finite.
std::optional<double> AnyNumber(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (value == "inf") return std::numeric_limits<double>::infinity();
  if (value == "-inf") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

// Pairs of an operator and a line.
std::vector<ShadowLine> LinesOf(const Json& json, const char* key) {
  std::vector<ShadowLine> lines;
  const auto found = json.is_object() ? json.find(key) : json.end();
  if (found == json.end() || !found->is_array()) return lines;
  for (const Json& pair : *found) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string())
      return {};
    if (lines.size() == kMostOperands) break;
    lines.push_back({pair[0].get<std::string>().substr(0, kTextBytes),
                     pair[1].get<std::string>().substr(0, kTextBytes)});
  }
  return lines;
}

// Pairs of a held value and its reference.
std::vector<ShadowOperand> OperandsOf(const Json& json, const char* key) {
  std::vector<ShadowOperand> operands;
  const auto found = json.is_object() ? json.find(key) : json.end();
  if (found == json.end() || !found->is_array()) return operands;
  for (const Json& pair : *found) {
    if (!pair.is_array() || pair.size() != 2 || operands.size() >= kMostOperands) return {};
    const auto held = AnyNumber(pair[0]), reference = AnyNumber(pair[1]);
    if (!held || !reference) return {};
    operands.push_back({*held, *reference});
  }
  return operands;
}

bool IsSet(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return found != json.end() && found->is_boolean() && found->get<bool>();
}

std::optional<ShadowOrigin> OriginOf(const Json& json) {
  const auto found = json.is_object() ? json.find("origin") : json.end();
  if (found == json.end() || !found->is_object()) return std::nullopt;
  return ShadowOrigin{TextOf(*found, "operator"), TextOf(*found, "source"), TextOf(*found, "dtype"),
                      Word<Phase>(TextOf(*found, "phase")), NumberOf(*found, "error")};
}

ShadowCarrier CarrierOf(const Json& json) {
  if (!json.is_object()) return {};
  ShadowCarrier carrier{Word<CarrierKind>(TextOf(json, "carrier")), TextOf(json, "whose"), "",
                        std::nullopt};
  if (carrier.kind.empty()) return {};
  carrier.at = TextOf(json, "at");
  if (const auto onset = NumberOf(json, "onset"); onset && *onset >= 0 && *onset < 1e15) {
    carrier.onset = static_cast<int64_t>(*onset);
  }
  return carrier;
}

ShadowGrowth GrowthOf(const Json& json) {
  if (!json.is_object()) return {};
  return {NumberOf(json, "growth"), TextOf(json, "at"), TextOf(json, "operator")};
}

ShadowRelation RelationOf(const Json& json) {
  if (!json.is_object()) return {};
  ShadowRelation relation;
  relation.parameters = TextsOf(json, "parameters");
  relation.count = NumberOf(json, "count");
  relation.steps = NumberOf(json, "steps");
  relation.passes = NumberOf(json, "passes");
  relation.loss_before = NumberOf(json, "loss_before");
  relation.loss_after = NumberOf(json, "loss_after");
  const auto none = json.find("none");
  relation.none = none != json.end() && none->is_boolean() && none->get<bool>();
  relation.saved = TextsOf(json, "saved");
  relation.restored = TextsOf(json, "restored");
  relation.what = TextOf(json, "what");
  relation.given = TextOf(json, "given");
  relation.power = NumberOf(json, "power");
  relation.scale = NumberOf(json, "scale");
  relation.entered = TextOf(json, "entered");
  relation.left = TextsOf(json, "left");
  relation.at = TextOf(json, "at");
  relation.share = NumberOf(json, "share");
  relation.times = NumberOf(json, "times");
  relation.until = NumberOf(json, "until");
  relation.stranded = NumberOf(json, "stranded");
  relation.device = TextOf(json, "device");
  relation.rank = NumberOf(json, "rank");
  relation.elements = NumberOf(json, "elements");
  const auto each_time = json.find("each_time");
  relation.each_time = each_time != json.end() && each_time->is_boolean() && each_time->get<bool>();
  return relation;
}

// JSON of the file; null where it is none.
Json Parsed(const std::string& text) {
  auto json = text.empty() ? Result<Json>(Json()) : ParseJson(text);
  return json ? *std::move(json) : Json();
}

bool Fits(const ShadowFilter& filter, const ShadowFinding& finding) {
  if (finding.step > filter.steps.last) return false;
  if (std::max(finding.step, finding.last_step.value_or(finding.step)) < filter.steps.first) {
    return false;
  }
  return !filter.layer_ids ||
         (finding.layer_id && std::binary_search(filter.layer_ids->begin(), filter.layer_ids->end(),
                                                 *finding.layer_id));
}

// Reads one rank's findings, or with `all` those of all ranks, part by part; stops with a note
// where the table is damaged or too long.
Result<void> ReadPart(const Source& source, size_t first, bool all, RankLayers& layers,
                      const ShadowFilter& filter, ShadowFindings& found) {
  const Database& database = DatabaseOf(source, first);
  if (!HasFindings(database)) return {};
  MPN_TRY_ASSIGN(
      auto rows,
      database.Prepare(
          "SELECT " + Columns(database) +
          (all ? ", run_id, (SELECT name FROM layer WHERE layer.run_id=shadow_finding.run_id AND "
                 "layer.layer_id=shadow_finding.layer_id) FROM shadow_finding WHERE step<=?2 "
                 "ORDER BY run_id<>?1, run_id, finding_id"
               : " FROM shadow_finding WHERE run_id=?1 AND step<=?2 ORDER BY finding_id")));
  rows.Bind(1, *RunOf(source, first).handle.run_id).Bind(2, filter.steps.last);
  const PartsByRank parts(source);
  while (true) {
    MPN_TRY_ASSIGN(auto next, rows.Next());
    if (!next) return {};
    ShadowFinding finding = FindingOf(rows);
    const size_t part = all ? parts.Of(rows.IntOr(kRunColumn, 0)) : first;
    finding.part = part;
    if (finding.layer_id && part > 0) {
      auto mapped = all ? layers.Map(part - 1, *finding.layer_id, rows.Text(kRunColumn + 1))
                        : layers.Map(part - 1, *finding.layer_id);
      if (!mapped) return mapped.error();
      finding.layer_id = *mapped;
    }
    if (!Fits(filter, finding)) continue;
    if (found.rows.size() >= kMostFindings) {
      found.notes.push_back("There are more than " + std::to_string(kMostFindings) +
                            " shadow findings; the later ones were not read.");
      return {};
    }
    if (!source.others.empty()) finding.ranks = {RunOf(source, part).rank};
    found.rows.push_back(std::move(finding));
  }
}

// What several ranks told alike becomes one row: the words of the worse one.
void Fold(std::vector<ShadowFinding>& rows) {
  using Key =
      std::tuple<std::string, std::string, std::string, std::string, std::optional<int64_t>>;
  std::map<Key, size_t> at;
  std::vector<ShadowFinding> folded;
  for (ShadowFinding& row : rows) {
    const auto [place, fresh] = at.try_emplace({std::string(row.kind.text()), row.op, row.source,
                                                std::string(row.phase.text()), row.layer_id},
                                               folded.size());
    if (fresh) {
      folded.push_back(std::move(row));
      continue;
    }
    ShadowFinding& known = folded[place->second];
    if (std::find(known.ranks.begin(), known.ranks.end(), row.ranks.front()) !=
        known.ranks.end()) {  // twice on one rank: two findings
      place->second = folded.size();
      folded.push_back(std::move(row));
      continue;
    }
    if (ShownBefore(row, known)) std::swap(row, known);
    known.step = std::min(known.step, row.step);
    known.last_step = std::max(known.last_step, row.last_step);
    known.repeats = std::max(known.repeats, row.repeats);
    known.ranks.insert(known.ranks.end(), row.ranks.begin(), row.ranks.end());
  }
  for (ShadowFinding& row : folded) std::sort(row.ranks.begin(), row.ranks.end());
  rows = std::move(folded);
}

}  // namespace

bool ShownBefore(const ShadowFinding& a, const ShadowFinding& b) {
  const auto key = [](const ShadowFinding& f) {
    return std::tuple(SeverityRank(f.severity), KindRank(f.kind), -f.error_out.value_or(-1),
                      f.step);
  };
  return key(a) < key(b);
}

Result<ShadowFindings> ReadShadowFindings(const Source& source, const ShadowFilter& filter) {
  ShadowFindings found;
  RankLayers layers(source);
  const bool at_once = LiesInOne(source);
  for (size_t part = 0; part < (at_once ? 1 : PartsOf(source)); ++part) {
    auto read = ReadPart(source, part, at_once, layers, filter, found);
    if (!read && !IsDamage(read.error())) return read.error();
    if (!read) found.notes.push_back(DamageNote(read.error()));
  }
  if (!source.others.empty()) Fold(found.rows);
  std::stable_sort(found.rows.begin(), found.rows.end(), ShownBefore);
  return found;
}

Result<void> CompleteFinding(const Source& source, ShadowFinding& finding) {
  const Database& database = DatabaseOf(source, finding.part);
  MPN_TRY_ASSIGN(
      auto row,
      database.Prepare("SELECT substr(" + database.ColumnsOrNull(kTable, {"reach"}) +
                       ", 1, 60000), substr(" + database.ColumnsOrNull(kTable, {"cure"}) +
                       ", 1, 60000), substr(" + database.ColumnsOrNull(kTable, {"detail"}) +
                       ", 1, 60000) FROM shadow_finding WHERE finding_id=?1 AND run_id=?2"));
  row.Bind(1, finding.finding_id).Bind(2, *RunOf(source, finding.part).handle.run_id);
  auto next = row.Next();
  if (!next && IsDamage(next.error())) return {};
  if (!next) return next.error();
  if (!*next) return {};
  finding.reach = ReachOf(Parsed(row.TextOr(0)));
  finding.cure = CureOf(Parsed(row.TextOr(1)));
  const Json detail = Parsed(row.TextOr(2));
  finding.forward_op = TextOf(detail, "forward");
  finding.operands = OperandsOf(detail, "operands");
  finding.inputs_from = LinesOf(detail, "inputs_from");
  for (const ShadowOperand& at : OperandsOf(detail, "derivative")) finding.derivative_at = at;
  finding.meets = LinesOf(detail, "meets");
  finding.origin = OriginOf(detail);
  finding.was_bad_before = !TextOf(detail, "from").empty();
  finding.carrier = CarrierOf(detail);
  if (const auto since = NumberOf(detail, "since");
      since && *since >= 0 && *since <= finding.step) {
    finding.since = static_cast<int64_t>(*since);
  }
  finding.home = TextOf(detail, "home");
  if (const auto callers = detail.find("called_from");
      callers != detail.end() && callers->is_array()) {
    for (const Json& line : *callers) {
      if (line.is_string() && finding.called_from.size() < kMostCallers)
        finding.called_from.push_back(line.get<std::string>());
    }
  }
  finding.rounded_before = IsSet(detail, "rounded_before");
  finding.rounded_between = IsSet(detail, "rounded_between");
  finding.lost_before = IsSet(detail, "lost_before");
  if (finding.kind == FindingKind::kDiverged) finding.growth = GrowthOf(detail);
  if (finding.reach.empty() || IsRelation(finding.kind)) finding.relation = RelationOf(detail);
  return {};
}

bool IsShadowAlert(const Word<AlertType>& type) {
  return type.text().starts_with("SHADOW_") || type == AlertType::kProtocol;
}

ShadowAlert ParseShadowAlert(std::string_view detail) {
  ShadowAlert alert;
  const Json json = Parsed(std::string(detail));
  if (!json.is_object()) return alert;
  if (const auto id = json.find("finding"); id != json.end() && id->is_number_integer()) {
    alert.finding_id = id->get<int64_t>();
  }
  alert.op = TextOf(json, "operator");
  alert.source = TextOf(json, "source");
  alert.proof = Word<Proof>(TextOf(json, "precision"));
  if (const auto cure = json.find("cure"); cure != json.end()) alert.cure = CureOf(*cure);
  return alert;
}

Result<std::optional<ShadowFinding>> FindShadowFinding(const Source& source, size_t part,
                                                       int64_t finding_id) {
  std::optional<ShadowFinding> none;
  const Database& database = DatabaseOf(source, part);
  if (!HasFindings(database)) return none;
  MPN_TRY_ASSIGN(auto row,
                 database.Prepare("SELECT " + Columns(database) +
                                  " FROM shadow_finding WHERE finding_id=?1 AND run_id=?2"));
  row.Bind(1, finding_id).Bind(2, *RunOf(source, part).handle.run_id);
  auto next = row.Next();
  if (!next && !IsDamage(next.error())) return next.error();
  if (!next || !*next) return none;
  ShadowFinding finding = FindingOf(row);
  finding.part = part;
  if (finding.layer_id && part > 0) {
    MPN_TRY_ASSIGN(auto mapped, RankLayers(source).Map(part - 1, *finding.layer_id));
    finding.layer_id = mapped;
  }
  MPN_TRY(CompleteFinding(source, finding));
  return std::optional(std::move(finding));
}

}  // namespace mpnanny::runs
