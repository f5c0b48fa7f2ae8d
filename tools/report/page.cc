#include "tools/report/page.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <map>
#include <optional>
#include <utility>

#include "base/text.h"
#include "base/version.h"
#include "engines/pictures/course.h"
#include "engines/pictures/heat_map.h"
#include "engines/pictures/histograms.h"
#include "engines/ranks/course.h"
#include "engines/runs/run.h"
#include "engines/runs/show.h"
#include "tools/call.h"

namespace mpnanny::report {
namespace {

using pictures::Course;
using pictures::CourseStretch;
using pictures::HeatMap;
using pictures::HeatMaps;
using pictures::Histogram;

constexpr char kFolder[] = "tools/report/page/";
constexpr size_t kAlertsShown = 200, kStepsWanted = 32;
constexpr size_t kNameBytes = 200;
constexpr size_t kAnswerBytesOnPage = 200'000;

Json Figure(const std::optional<double>& value) { return JsonNumber(value, 4); }

Json CourseJson(const Course& course) {
  Json steps = Json::array(), ends = Json::array(), skipped = Json::array(), bad = Json::array();
  for (const CourseStretch& each : course.stretches) {
    steps.push_back(each.first_step);
    ends.push_back(each.last_step);
    skipped.push_back(each.skipped);
    bad.push_back(each.not_finite);
  }
  Json json = {{"step", std::move(steps)},
               {"end", std::move(ends)},
               {"skipped", std::move(skipped)},
               {"not_finite", std::move(bad)},
               {"steps", course.steps}};
  for (size_t metric = 0; metric < pictures::kMetrics; ++metric) {
    Json least = Json::array(), greatest = Json::array(), last = Json::array();
    bool any = false;
    for (const CourseStretch& each : course.stretches) {
      const pictures::CurvePoint& point = each.points[metric];
      any = any || point.last.has_value();
      least.push_back(Figure(point.least));
      greatest.push_back(Figure(point.greatest));
      last.push_back(Figure(point.last));
    }
    if (!any) continue;
    json["curves"][pictures::kMetricNames[metric]] = {
        {"least", std::move(least)}, {"greatest", std::move(greatest)}, {"last", std::move(last)}};
  }
  return json;
}

Json HeatMapsJson(const HeatMaps& maps) {
  Json layers = Json::array(), made = Json::array();
  for (const std::string& layer : maps.layers) layers.push_back(EscapeControl(layer, kNameBytes));
  const size_t columns = maps.first_steps.size();
  for (const HeatMap& map : maps.maps) {
    Json rows = Json::array();
    for (size_t row = 0; row < maps.layers.size(); ++row) {
      Json cells = Json::array();
      for (size_t column = 0; column < columns; ++column) {
        const float cell = map.cells[row * columns + column];
        cells.push_back(std::isnan(cell) ? Json() : JsonNumber(static_cast<double>(cell), 3));
      }
      rows.push_back(std::move(cells));
    }
    made.push_back({{"kind", map.kind}, {"figure", map.figure}, {"rows", std::move(rows)}});
  }
  return {{"first_steps", maps.first_steps},  {"last_steps", maps.last_steps},
          {"layers", std::move(layers)},      {"dtypes", maps.dtypes},
          {"maps", std::move(made)},          {"layers_left_out", maps.layers_left_out},
          {"samples_read", maps.samples_read}};
}

// As HeatMapsJson(): a row a rank.
Json RanksJson(const ranks::Course& course) {
  Json names = Json::array(), dtypes = Json::array(), made = Json::array();
  for (const int64_t rank : course.ranks) {
    names.push_back(std::to_string(rank));
    dtypes.push_back("");
  }
  for (size_t figure = 0; figure < course.apart.size(); ++figure) {
    Json rows = Json::array();
    for (const std::vector<float>& row : course.apart[figure]) {
      Json cells = Json::array();
      for (const float cell : row)
        cells.push_back(std::isnan(cell) ? Json() : JsonNumber(static_cast<double>(cell), 3));
      rows.push_back(std::move(cells));
    }
    made.push_back(
        {{"kind", ranks::kCourseFigures[figure]}, {"figure", "apart"}, {"rows", std::move(rows)}});
  }
  return {{"row", "rank"},
          {"first_steps", course.steps},
          {"last_steps", course.steps},
          {"layers", std::move(names)},
          {"dtypes", std::move(dtypes)},
          {"maps", std::move(made)},
          {"layers_left_out", course.ranks_left_out}};
}

Json HistogramsJson(const std::vector<Histogram>& histograms) {
  Json json = Json::array();
  for (const Histogram& each : histograms) {
    Json counts = Json::array();
    for (const auto& [exponent, count] : each.counts) counts.push_back({exponent, count});
    json.push_back({{"step", each.step},
                    {"kind", each.kind},
                    {"layer", EscapeControl(each.layer, kNameBytes)},
                    {"zeros", each.zeros},
                    {"counts", std::move(counts)}});
  }
  return json;
}

const Tool& Named(const std::vector<Tool>& tools, const std::string& name) {
  return *std::find_if(tools.begin(), tools.end(),
                       [&](const Tool& tool) { return tool.definition.name == name; });
}

// The answer of another tool, as much of it as a page has room for.
Result<Json> Answer(const Tool& tool, Json arguments, const ToolContext& context) {
  ToolContext room = context;
  room.answer_bytes = kAnswerBytesOnPage;
  room.chinese_too = true;
  auto answer = CallTool(tool, std::move(arguments), room);
  if (!answer) return answer.error();
  return std::move(answer->structured);
}

// The steps at which alerts began, those of errors first; the heat map has them all.
std::vector<int64_t> StepsOf(const Json& alerts) {
  std::vector<int64_t> steps;
  for (const char* const severity : {"ERROR", "WARNING"}) {
    for (const Json& alert : alerts) {
      if (steps.size() == kStepsWanted) return steps;
      if (alert.value("severity", "") == severity && ValueAt(alert, {"step"}).is_number_integer()) {
        steps.push_back(alert["step"]);
      }
    }
  }
  return steps;
}

// Layers that alerts name, the first ones first.
std::vector<std::string> LayersOf(const Json& alerts) {
  std::vector<std::string> layers;
  for (const Json& alert : alerts) {
    const Json& layer = ValueAt(alert, {"layer"});
    if (!layer.is_string()) continue;
    const auto& name = layer.get_ref<const std::string&>();
    if (std::find(layers.begin(), layers.end(), name) == layers.end()) layers.push_back(name);
  }
  return layers;
}

std::vector<int64_t> IdsOf(const std::vector<std::string>& layers, const HeatMaps& maps) {
  std::map<std::string, int64_t> ids;
  for (size_t at = 0; at < maps.layers.size(); ++at) {
    ids[runs::Name(maps.layers[at])] = maps.layer_ids[at];
  }
  std::vector<int64_t> found;
  for (const std::string& layer : layers) {
    if (const auto id = ids.find(layer); id != ids.end()) found.push_back(id->second);
  }
  return found;
}

// JSON inside of <script>: no "</script>" nor "<!--" may stand in it.
std::string ScriptJson(const Json& json) {
  std::string text;
  for (const char c : DumpJson(json)) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

// {{name}} in the template becomes a part; what a part holds is not looked at again.
std::string Fill(std::string_view form, const std::map<std::string, std::string_view>& parts) {
  std::string page;
  while (true) {
    const size_t open = form.find("{{");
    const size_t close = open == std::string_view::npos ? open : form.find("}}", open);
    if (close == std::string_view::npos) break;
    page += form.substr(0, open);
    const auto part = parts.find(std::string(form.substr(open + 2, close - open - 2)));
    if (part != parts.end()) page += part->second;
    form.remove_prefix(close + 2);
  }
  page += form;
  return page;
}

std::string PageOf(const Json& shown, const DataFiles& data) {
  const auto file = [&](const char* name) {
    return data.Read(std::string(kFolder) + name).value_or("");
  };
  const std::string json = ScriptJson(shown);
  return Fill(file("page.html"), {{"style", file("page.css")},
                                  {"data", json},
                                  {"library", file("chart.js")},
                                  {"words", file("words.js")},
                                  {"heat_map", file("heat_map.js")},
                                  {"charts", file("charts.js")},
                                  {"sections", file("sections.js")},
                                  {"host", file("host.js")},
                                  {"script", file("page.js")}});
}

}  // namespace

Result<void> CanShow(const std::string& run, const ToolContext& context) {
  auto source = runs::OpenRun(run, context.roots, context.cancel);
  if (!source) return source.error();
  return {};
}

Result<Json> RunData(const std::string& run, const ToolContext& context, bool detailed) {
  auto source = runs::OpenRun(run, context.roots, context.cancel);
  if (!source) return source.error();
  const std::string handle = runs::ShownHandle(*source);
  const std::vector<Tool> tools = AllTools();
  // Most of the time is the diagnosis'; what does not need it is read meanwhile.
  auto diagnosing = std::async(std::launch::async, [&] {
    return Answer(Named(tools, "diagnose_run"), {{"run", run}}, context);
  });
  auto rest = [&]() -> Result<Json> {
    auto alerts = Answer(Named(tools, "query_alerts"), {{"run", run}}, context);
    if (!alerts) return alerts.error();
    Json& rows = (*alerts)["alerts"];
    if (rows.size() > kAlertsShown) {
      rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(kAlertsShown), rows.end());
    }
    auto summary = Answer(Named(tools, "run_summary"), {{"run", run}}, context);
    if (!summary) return summary.error();
    auto course = pictures::ReadCourse(*source);
    if (!course) return course.error();
    Json data = {
        {"run", handle}, {"summary", *std::move(summary)}, {"course", CourseJson(*course)}};
    if (detailed) {
      const std::vector<std::string> layers = LayersOf(rows);
      auto maps = pictures::ReadHeatMaps(*source, {StepsOf(rows), layers});
      if (!maps) return maps.error();
      auto histograms = pictures::ReadHistograms(*source, IdsOf(layers, *maps));
      if (!histograms) return histograms.error();
      data["heat"] = HeatMapsJson(*maps);
      auto ranks = ranks::ReadCourse(*source);
      if (!ranks) return ranks.error();
      if (!ranks->steps.empty()) data["ranks"] = RanksJson(*ranks);
      data["histograms"] = HistogramsJson(*histograms);
    }
    data["alerts"] = std::move(rows);
    data["alerts_total"] = alerts->value("total", 0);
    return data;
  }();
  auto diagnosis = diagnosing.get();
  if (!rest) return rest;
  if (!diagnosis) return diagnosis;
  (*rest)["diagnosis"] = *std::move(diagnosis);
  return rest;
}

Result<Json> PageData(const std::vector<std::string>& handles, const PageOptions& options,
                      const ToolContext& context) {
  if (handles.empty() || handles.size() > 2) {
    return InvalidInput("A page shows one run, or two laid over each other.", "Name one or two.");
  }
  Json data = {
      {"runs", Json::array()}, {"language", options.language}, {"version", std::string(kVersion)}};
  for (const std::string& run : handles) {
    auto of = RunData(run, context, data["runs"].empty());
    if (!of) return of.error();
    data["runs"].push_back(*std::move(of));
  }
  return data;
}

Result<std::string> MakePage(const std::vector<std::string>& handles, const PageOptions& options,
                             const ToolContext& context) {
  auto data = PageData(handles, options, context);
  if (!data) return data.error();
  return PageOf(*data, context.data);
}

Result<std::string> MakePicture(const std::vector<std::string>& handles,
                                const ToolContext& context) {
  const bool two = handles.size() == 2;
  const Json arguments =
      two ? Json{{"a", handles[0]}, {"b", handles[1]}} : Json{{"run", handles[0]}};
  const std::vector<Tool> tools = AllTools();
  const Tool& tool = Named(tools, two ? "compare_runs" : "diagnose_run");
  auto answer = Answer(tool, arguments, context);
  if (!answer) return answer.error();
  auto picture = tool.picture(arguments, *answer, context);
  if (!picture) return picture.error();
  return std::move(picture->png);
}

std::string MakeLivePage(const PageOptions& options, const DataFiles& data) {
  return PageOf({{"runs", Json::array()},
                 {"language", options.language},
                 {"live", true},
                 {"version", std::string(kVersion)}},
                data);
}

std::string MakeView(const DataFiles& data) {
  return PageOf({{"runs", Json::array()}, {"host", true}, {"version", std::string(kVersion)}},
                data);
}

}  // namespace mpnanny::report
