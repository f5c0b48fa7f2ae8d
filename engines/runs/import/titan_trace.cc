// torchtitan's structured log: a JSONL file a rank ("trainer.global_rank_0.….jsonl"), in which a
// record is a span of time, a mark, or one number of a step (log_type_name "metric_value").
#include <algorithm>

#include "base/text.h"
#include "engines/runs/import/byte_source.h"
#include "engines/runs/import/format.h"
#include "engines/runs/import/loose_json.h"
#include "engines/runs/import/series.h"
#include "engines/runs/show.h"

namespace mpnanny::imports {
namespace {

constexpr size_t kMaxRecordLine = 64 * 1024;
constexpr size_t kMostRanks = 64;
constexpr std::string_view kRankMark = ".global_rank_";

struct Record {
  std::string type, name;  // log_type_name, event_name
  std::optional<double> value, step, rank, time_us;
};

std::optional<Record> RecordIn(std::string_view line) {
  Record record;
  bool of_rank = false;
  const bool whole = ReadLooseJson(line, {[&](const LooseValue& value) {
                                            if (value.path.size() != 1) return;
                                            const std::string& key = value.path[0];
                                            if (key == "log_type_name" && value.text)
                                              record.type = *value.text;
                                            if (key == "event_name" && value.text)
                                              record.name = *value.text;
                                            if (key == "value") record.value = value.number;
                                            if (key == "step") record.step = value.number;
                                            if (key == "rank") record.rank = value.number;
                                            if (key == "global_rank") of_rank = true;
                                            if (key == "time_us") record.time_us = value.number;
                                          },
                                          {}});
  return whole && of_rank && !record.type.empty() ? std::optional(std::move(record)) : std::nullopt;
}

bool Fits(const FileHead& head) {
  LineReader lines(ByteSource::OfText(head.bytes), kMaxRecordLine);
  const auto line = lines.Next();
  return line && line->starts_with("{") && RecordIn(*line);
}

int64_t RankOfName(const std::string& name) {
  size_t at = name.find(kRankMark) + kRankMark.size();
  return static_cast<int64_t>(NumberAt(name, at).value_or(-1));
}

// All ranks of one source: of several (a trainer and its generators) the trainer's, or the first.
std::vector<std::string> Pick(const Folder& folder) {
  std::vector<std::string> picked;
  std::string source;
  for (const std::string& name : folder.files) {
    const size_t at = name.find(kRankMark);
    if (at == std::string::npos || !name.ends_with(".jsonl")) continue;
    const std::string of = name.substr(0, at);
    if (source.empty() ||
        (of != source && of.starts_with("train") && !source.starts_with("train"))) {
      source = of;
      picked.clear();
    }
    if (of == source) picked.push_back(name);
  }
  std::stable_sort(picked.begin(), picked.end(), [](const std::string& a, const std::string& b) {
    return RankOfName(a) < RankOfName(b);
  });
  if (picked.size() > kMostRanks) picked.resize(kMostRanks);
  return picked;
}

struct Counted {
  int64_t records = 0, figures = 0, broken = 0;
};

Result<void> ReadRank(const std::string& path, bool first, Series& series, Counted& counted,
                      const CancelToken& cancel) {
  MPN_TRY_ASSIGN(auto source, ByteSource::OfFile(path));
  LineReader lines(std::move(source), kMaxRecordLine);
  while (const auto line = lines.Next()) {
    if (line->empty()) continue;
    if (++counted.records % 1024 == 0) MPN_TRY(cancel.Check());
    const auto record = RecordIn(*line);
    if (!record) {
      ++counted.broken;
      continue;
    }
    if (!record->value || !IsCount(record->step)) continue;
    const bool figure = record->type == "metric_value" && !record->name.empty();
    // How long a part of the step took, in milliseconds: of one rank.
    if (!figure && !(first && record->type.ends_with("_end"))) continue;
    std::string name = figure ? record->name : record->type;
    if (!first) name += "@rank" + std::to_string(static_cast<int64_t>(record->rank.value_or(-1)));
    ++counted.figures;
    const auto at = record->time_us ? std::optional(*record->time_us / 1e6) : std::nullopt;
    series.Add(name, static_cast<int64_t>(*record->step), *record->value, at);
  }
  return {};
}

Result<void> Read(const std::vector<std::string>& files, Import& into) {
  Series series(into);
  Counted counted;
  for (size_t i = 0; i < files.size(); ++i) {
    MPN_TRY(ReadRank(files[i], i == 0, series, counted, into.recorder.cancel()));
  }
  into.counts = runs::Count(counted.figures, "figure") + " in " +
                runs::Count(counted.records, "record") + " of " +
                runs::Count(static_cast<int64_t>(files.size()), "rank");
  series.Finish();
  if (counted.broken > 0) {
    into.notes.push_back(runs::Count(counted.broken, "line") +
                         " that are no records were left out.");
  }
  return {};
}

}  // namespace

const Format kTitanTrace{"torchtitan structured log", Fits, Pick, Read};

}  // namespace mpnanny::imports
