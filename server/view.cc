#include "server/view.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <ostream>
#include <utility>

#include "base/data_files.h"
#include "base/files.h"
#include "base/random_id.h"
#include "base/stop_event.h"
#include "server/transport/http/access_rules.h"
#include "server/transport/http/listener.h"
#include "tools/report/page.h"

namespace mpnanny {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kHost[] = "127.0.0.1";
constexpr std::chrono::milliseconds kPatience{500};

// The data of the page, made anew when it is asked for and not too often: a large run takes
// seconds. Thread-safe.
class FreshData {
 public:
  FreshData(std::vector<std::string> runs, report::PageOptions options, const ToolContext& context)
      : runs_(std::move(runs)), options_(std::move(options)), context_(context) {}

  struct Version {
    std::string json, tag;
  };
  Result<Version> Get() {
    const std::lock_guard lock(mutex_);
    const auto start = Clock::now();
    if (start < next_) return version_;
    MPN_TRY_ASSIGN(auto data, report::PageData(runs_, options_, context_));
    version_.json = DumpJson(data);
    version_.tag = "\"" + std::to_string(std::hash<std::string>()(version_.json)) + "\"";
    // At most a quarter of the time goes into it.
    const auto end = Clock::now();
    next_ = end + std::max<Clock::duration>(std::chrono::seconds(1), 3 * (end - start));
    return version_;
  }

 private:
  const std::vector<std::string> runs_;
  const report::PageOptions options_;
  const ToolContext& context_;
  std::mutex mutex_;
  Version version_;
  Clock::time_point next_{};
};

class PageSite {
 public:
  PageSite(const ViewOptions& options, const ToolContext& context)
      : folder_("/" + RandomId() + "/"),
        page_(report::MakeLivePage({.language = options.language}, context.data)),
        data_(options.runs, {.language = options.language}, context),
        access_({.bound_host = kHost}) {}

  const std::string& folder() const { return folder_; }

  // True: the request is refused by its head, and has been answered.
  bool Screen(HttpExchange& exchange) const {
    const auto refused = access_.CheckNames(exchange.Header("Host"), exchange.Header("Origin"),
                                            exchange.local_address());
    HttpReply reply{.content_type = "text/plain; charset=utf-8", .close = true};
    if (refused) {
      reply.status = refused->status;
      reply.body = refused->why + "\n";
    } else if (exchange.surplus()) {
      reply.status = 503;
    } else if (exchange.method() != "GET") {
      reply.status = 405;
      reply.headers.emplace_back("Allow", "GET");
    } else if (exchange.path() != folder_ && exchange.path() != folder_ + "data.json") {
      reply.status = 404;
      reply.body = "There is nothing here. `mpnanny view` printed the address of the page.\n";
    } else {
      return false;
    }
    exchange.Reply(std::move(reply));
    return true;
  }

  void Serve(HttpExchange& exchange) {
    HttpReply reply;
    // Other pages may neither embed it nor read it.
    reply.headers = {{"Cache-Control", "no-cache"},
                     {"X-Content-Type-Options", "nosniff"},
                     {"Cross-Origin-Resource-Policy", "same-origin"},
                     {"Content-Security-Policy", "frame-ancestors 'none'"},
                     {"Referrer-Policy", "no-referrer"}};
    if (exchange.path() == folder_) {
      reply.content_type = "text/html; charset=utf-8";
      reply.body = page_;
    } else {
      Answer(exchange, reply);
    }
    exchange.Reply(std::move(reply));
  }

 private:
  void Answer(const HttpExchange& exchange, HttpReply& reply) {
    const auto version = data_.Get();
    if (!version) {
      reply.status = 503;
      reply.content_type = "text/plain; charset=utf-8";
      reply.body = version.error().Text() + "\n";
      return;
    }
    reply.headers.emplace_back("ETag", version->tag);
    if (exchange.Header("If-None-Match") == version->tag) {
      reply.status = 304;
      return;
    }
    reply.content_type = "application/json";
    reply.body = version->json;
  }

  const std::string folder_;
  const std::string page_;
  FreshData data_;
  const AccessRules access_;
};

}  // namespace

Result<void> View(const ViewOptions& options, std::ostream& out) {
  StopEvent stop;
  stop.BindSignals();
  MPN_TRY_ASSIGN(const auto data, DataFiles::Create(options.data_dir));
  const AllowedRoots roots = AllowedRoots::Unrestricted();
  const CancelSource cancel;
  const ToolContext context{
      .roots = roots, .data = data, .cancel = cancel.token(), .progress = nullptr};
  // A run that cannot be opened is an error of the command, not of the page.
  for (const std::string& run : options.runs) {
    if (auto shown = report::CanShow(run, context); !shown) return shown;
  }
  PageSite site(options, context);
  HttpListener listener({}, {.screen = [&](HttpExchange& e) { return site.Screen(e); },
                             .serve = [&](HttpExchange& e) { site.Serve(e); }});
  MPN_TRY_ASSIGN(const auto port, listener.Bind(kHost, options.port));
  listener.Start();
  out << "http://" << kHost << ":" << port << site.folder() << "\n"
      << "shows the run and follows it until Ctrl+C. From another machine: ssh -L " << port << ":"
      << kHost << ":" << port << " …\n"
      << std::flush;
  stop.Wait();
  cancel.Cancel();
  listener.StopAccepting();
  listener.WaitUntilClosed(kPatience);
  listener.Abort();
  return {};
}

}  // namespace mpnanny
