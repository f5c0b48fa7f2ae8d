// `mpnanny ship`: runs into a team's PostgreSQL, its tables, and what goes out of them. A command
// and no tool: it writes.
#include <chrono>
#include <cmath>
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

struct CommandOptions {
  std::vector<std::string> what;
  std::string to, setup, thin, older_than;
  int64_t keep_every = 10;
  std::string drop;
  bool follow = false, beside = false, quiet = false;
  double interval = 2;
  int lanes = 2;
  std::string format = "text";
};

// How long a follower that is told to stop may still take for the last rows.
constexpr std::chrono::seconds kLastRows{5};

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

int RunShip(const CommandLineContext& context, const CommandOptions& options) {
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
  ship.follow = options.follow || options.beside;
  ship.new_since = options.beside ? Now() - 1 : 0;
  ship.interval = options.interval;
  ship.lanes = options.lanes;
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
    PrintReport(*report, *to, options.beside ? context.err : context.out);
  }
  if (report->whole) return 0;
  if (options.follow || options.beside) {
    std::vector<std::string> words = {"mpnanny", "ship"};
    words.insert(words.end(), options.what.begin(), options.what.end());
    words.insert(words.end(), {"--to", team::UrlOf(*to)});
    context.err << "Not all rows are there; this ships the rest: " << ShellCommand(words) << "\n";
  }
  return 1;
}

int RunOnServer(const CommandLineContext& context, const CommandOptions& options) {
  const bool json = options.format == "json";
  const bool thin = !options.thin.empty();
  auto address = team::ParseAddress(thin ? options.thin : options.setup);
  if (!address && !options.drop.empty()) address = team::ParseAddress(options.drop);
  if (!options.drop.empty()) address = team::ParseAddress(options.drop);
  if (!address) return PrintError(context, "ship", address.error(), json);
  Result<std::string> done = std::string();
  if (!options.setup.empty()) {
    done = team::Setup(*address, {});
  } else if (!options.drop.empty()) {
    done = team::Drop(*address, {});
  } else {
    done = team::Thin(*address, options.older_than, options.keep_every, {});
  }
  if (!done) return PrintError(context, "ship", done.error(), json);
  if (json) {
    context.out << DumpJsonPretty({{"done", *done}}) << "\n";
  } else {
    context.out << *done << "\n";
  }
  return 0;
}

}  // namespace

void AddShipCommand(CommandSet& set) {
  const auto options = std::make_shared<CommandOptions>();
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
  CLI::Option* const to =
      command.add_option("--to", options->to, "The database that they go to")->type_name("URL");
  command
      .add_flag("--follow", options->follow,
                "Go on while the runs do; a server that is away is waited for")
      ->needs(to);
  // What `mpnanny run --ship` starts: runs that begin from now on, until it is told to stop.
  command.add_flag("--beside", options->beside)->needs(to)->group("");
  command.add_flag("--quiet", options->quiet, "Say nothing but errors");
  command.add_option("--interval", options->interval, "Seconds between two looks (default: 2)")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.05, 3600.0));
  command.add_option("--lanes", options->lanes, "Connections side by side (default: 2)")
      ->type_name("N")
      ->check(CLI::Range(1, 64));
  CLI::Option* const setup =
      command
          .add_option("--setup", options->setup,
                      "Make schema, tables and roles, or bring them up to date")
          ->type_name("URL")
          ->excludes(to);
  CLI::Option* const thin =
      command
          .add_option("--thin", options->thin, "Thin the statistics of old runs in this database")
          ->type_name("URL")
          ->excludes(to)
          ->excludes(setup);
  CLI::Option* const older =
      command
          .add_option("--older-than", options->older_than,
                      "With --thin: runs whose last sign of life is so long ago: 30d, 12h")
          ->type_name("TIME")
          ->needs(thin);
  thin->needs(older);
  command
      .add_option("--keep-every", options->keep_every,
                  "With --thin: every so many samples stay whole (default: 10)")
      ->type_name("N")
      ->needs(thin)
      ->check(CLI::Range(2, 1'000'000));
  command
      .add_option("--drop", options->drop, "Remove one run, with all its ranks, from the database")
      ->type_name("RUN")
      ->excludes(to)
      ->excludes(setup)
      ->excludes(thin);
  command.add_option("--format", options->format, "How the answer is printed (default: text)")
      ->type_name("text|json")
      ->check(CLI::IsMember({"text", "json"}));
  set.actions.emplace_back(&command, [&context = set.context, options] {
    if (!options->to.empty()) return RunShip(context, *options);
    if (options->setup.empty() && options->thin.empty() && options->drop.empty()) {
      return PrintError(context, "ship",
                        InvalidInput("Where to?",
                                     "--to postgresql://host/db, or --setup URL once "
                                     "for a new database."),
                        options->format == "json");
    }
    return RunOnServer(context, *options);
  });
}

}  // namespace mpnanny
