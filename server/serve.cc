#include "server/serve.h"

#include <cstdlib>

#include "base/data_files.h"
#include "base/descriptors.h"
#include "base/files.h"
#include "base/log.h"
#include "base/stop_event.h"
#include "server/product.h"
#include "server/stdio_server.h"

namespace mpnanny {
namespace {

int Refuse(const Error& error) {
  LogError("Cannot serve: " + error.Text());
  return 2;
}

}  // namespace

int Serve(const ServeOptions& options) {
  StopEvent stop;
  stop.BindSignals();
  // First of all: from here on nothing but the protocol reaches the client.
  const auto streams = TakeStandardStreams();
  if (!streams) return Refuse(streams.error());
  const auto data = DataFiles::Create(options.data_dir);
  if (!data) return Refuse(data.error());
  const auto roots = AllowedRoots::Create(options.roots);
  if (!roots) return Refuse(roots.error());

  const Registry registry = ProductRegistry({*roots, *data, options.allow_exec});
  if (!RunStdioServer(registry, *streams, stop)) std::_Exit(0);
  return 0;
}

}  // namespace mpnanny
