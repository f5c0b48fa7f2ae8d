// `mpnanny ship`: runs into a team's PostgreSQL, its tables, and what goes out of them. A command
// and no tool: it writes.
#include <algorithm>
#include <chrono>
#include <memory>
#include <ostream>
#include <thread>

#include "base/text.h"
#include "engines/team/setup.h"
#include "engines/team/ship.h"
#include "engines/team/thin.h"
#include "server/command_line/commands.h"

namespace mpnanny {
namespace {

struct ShipCommandOptions {
  std::vector<std::string> what;
  std::string to, setup, thin, older_than;
  int64_t keep_every = 10;
  std::string drop;
  bool follow = false, only_new = false, quiet = false;
  double interval = 2;
  int64_t lanes = 2;
  std::string format = "text";
};

// How long a follower that is told to stop may still take for the last rows.
constexpr std::chrono::seconds kLastRows{5};
constexpr int64_t kMostLanes = 64;

double Now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Json ReportJson(const team::ShipReport& report, const team::Address& to) {
  Json trainings = Json::array();
  for (const team::ShippedTraining& training : report.trainings) {
    trainings.push_back({{"run", team::HandleOf(to, training.training)},
                         {"name", EscapeControl(training.name)},
                         {"ranks", training.ranks},
                         {"world_size", training.world_size},
                         {"rows", training.rows},
                         {"whole", training.whole},
                         {"running", training.running}});
  }
  return {{"runs", std::move(trainings)},
          {"rows", report.rows},
          {"bytes", report.bytes},
          {"whole", report.whole},
          {"notes", report.notes}};
}

void PrintReport(const team::ShipReport& report, const team::Address& to, std::ostream& out) {
  for (const team::ShippedTraining& training : report.trainings) {
    out << team::HandleOf(to, training.training) << "  " << EscapeControl(training.name, 200);
    if (training.world_size > 1) {
      out << ", " << training.ranks << " of " << training.world_size << " ranks";
    }
    out << ": " << training.rows << " rows went now"
        << (!training.whole    ? ", not all is there yet"
            : training.running ? ", all that is written so far is there"
                               : ", all is there")
        << ".\n";
  }
  if (report.trainings.empty()) out << "No run was shipped.\n";
  for (const std::string& note : report.notes) out << "Note: " << EscapeControl(note) << "\n";
}

int RunShip(const CommandLineContext& context, const ShipCommandOptions& options) {
  const bool json = options.format == "json";
  const auto fail = [&](const Error& error) { return PrintError(context, "ship", error, json); };
  if (options.what.empty()) {
    return fail(InvalidInput("Which runs?", "mpnanny ship nanny_logs --to postgresql://host/db"));
  }
  auto to = team::ParseAddress(options.to);
  if (!to) return fail(to.error());
  team::ShipOptions ship;
  ship.what = options.what;
  ship.to = *to;
  ship.follow = options.follow || options.only_new;
  ship.new_since = options.only_new ? Now() - 1 : 0;
  ship.interval = std::min(options.interval, 3600.0);
  ship.lanes = static_cast<int>(std::min<int64_t>(options.lanes, kMostLanes));

  ship.tell = [&](const std::string& line) {
    if (options.quiet) return;
    context.err << "mpnanny ship: " << line << "\n";
    context.err.flush();
  };

  StopEvent stop;
  stop.BindSignals();
  const CancelSource cancel;
  std::thread limit([&] {
    stop.Wait();
    cancel.SetLimit(kLastRows);
  });
  auto report = team::Ship(ship, stop, cancel.token());
  const bool stopped = stop.requested();
  stop.Request();
  limit.join();
  if (!report && stopped) {
    return fail(Unavailable("It was stopped before all was shipped.",
                            "The same command goes on where it was."));
  }
  if (!report) return fail(report.error());
  if (json) {
    context.out << DumpJsonPretty(ReportJson(*report, *to)) << "\n";
  } else if (!options.quiet) {
    PrintReport(*report, *to, context.out);
  }
  if (report->whole) return 0;
  if (ship.follow) {
    std::vector<std::string> words = {"mpnanny", "ship"};
    words.insert(words.end(), options.what.begin(), options.what.end());
    words.insert(words.end(), {"--to", team::UrlOf(*to)});
    context.err << "Not all rows are there; this ships the rest: " << ShellCommand(words) << "\n";
  }
  return 1;
}

Result<std::string> DoOnServer(const ShipCommandOptions& options) {
  MPN_TRY_ASSIGN(const team::Address address,
                 team::ParseAddress(options.setup + options.thin + options.drop));
  if (!options.setup.empty()) return team::Setup(address, {});
  if (!options.drop.empty()) return team::Drop(address, {});
  return team::Thin(address, options.older_than, options.keep_every, {});
}

int Run(const CommandLineContext& context, const ShipCommandOptions& options) {
  const bool json = options.format == "json";
  const auto fail = [&](const Error& error) { return PrintError(context, "ship", error, json); };
  int asked = 0;
  for (const std::string* url : {&options.to, &options.setup, &options.thin, &options.drop}) {
    asked += url->empty() ? 0 : 1;
  }
  if (asked != 1) {
    return fail(InvalidInput(asked == 0 ? "Where to?" : "One thing at a time.",
                             "One of --to URL, --setup URL, --thin URL and --drop RUN."));
  }
  if (options.thin.empty() != options.older_than.empty()) {
    return fail(InvalidInput("Which runs are to be thinned?", "--thin URL --older-than 30d"));
  }
  if (!options.to.empty()) return RunShip(context, options);
  const Result<std::string> done = DoOnServer(options);
  if (!done) return fail(done.error());
  context.out << (json ? DumpJsonPretty({{"done", *done}}) : *done) << "\n";
  return 0;
}

}  // namespace

void AddShipCommand(CommandSet& set) {
  const auto options = std::make_shared<ShipCommandOptions>();
  CLI::App& command = *set.parser.add_subcommand(
      "ship",
      "Put runs into a team's PostgreSQL database\n\n"
      "mpnanny ship --setup postgresql://host/db (once, by the database's owner)\n"
      "mpnanny ship nanny_logs --to postgresql://host/db [--follow]\n"
      "mpnanny ship --thin postgresql://host/db --older-than 30d\n"
      "mpnanny ship --drop postgresql://host/db#12\n"
      "Only what is not there yet goes; it may be cut off and begun again. The files are read and "
      "never changed, and a training beside notices nothing. Passwords are given as libpq takes "
      "them (~/.pgpass, PGPASSWORD), never in a URL.");
  command.group("Commands");
  command
      .add_option("DB", options->what,
                  "The runs: databases with all ranks beside them, database#id, folders, patterns")
      ->type_name("");
  command.add_option("--to", options->to, "The database that they go to")->type_name("URL");
  command.add_flag("--follow", options->follow,
                   "Go on while the runs do; a server that is away is waited for");
  command.add_flag("--new", options->only_new,
                   "Follow only runs that begin from now on, until told to stop");
  command.add_flag("--quiet", options->quiet, "Say nothing but errors");
  command.add_option("--interval", options->interval, "Seconds between two looks, 2 by default")
      ->type_name("SECONDS")
      ->check(CLI::PositiveNumber);
  command.add_option("--lanes", options->lanes, "Connections side by side, 2 by default")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  command
      .add_option("--setup", options->setup,
                  "Make schema, tables and roles in this database, or bring them up to date")
      ->type_name("URL");
  command.add_option("--thin", options->thin, "Thin the statistics of old runs in this database")
      ->type_name("URL");
  command
      .add_option("--older-than", options->older_than,
                  "With --thin: runs whose last sign of life is so long ago: 30d, 12h")
      ->type_name("TIME");
  command
      .add_option("--keep-every", options->keep_every,
                  "With --thin: of so many samples one stays whole, 10 by default")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  command
      .add_option("--drop", options->drop, "Remove this run, with all its ranks, from its database")
      ->type_name("RUN");
  command.add_option("--format", options->format, "How the answer is printed (default: text)")
      ->check(CLI::IsMember({"text", "json"}));
  set.actions.emplace_back(&command,
                           [&context = set.context, options] { return Run(context, *options); });
}

}  // namespace mpnanny
