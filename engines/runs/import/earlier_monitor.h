// Databases of the earlier Python monitor (tables layer_stats, alerts, loss_scale_history), shown
// in today's schema.
//
// Nothing is copied: views over the file answer, so that a large or live one is asked as quickly as
// its own indexes allow; only the names of layers and the sampled steps, read by skipping along an
// index, are kept in temporary tables. Free function over a connection that its caller owns.
#ifndef MPNANNY_ENGINES_RUNS_IMPORT_EARLIER_MONITOR_H_
#define MPNANNY_ENGINES_RUNS_IMPORT_EARLIER_MONITOR_H_

#include <sqlite3.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace mpnanny::imports {

// Makes the views in the connection's `temp` schema, which goes before the file's own names.
// `name`: of the run that they show. Returns what limits the reading, for people; DataCorrupt if
// the tables are not as that monitor wrote them.
Result<std::vector<std::string>> PresentEarlierMonitor(sqlite3* database, const std::string& name);

}  // namespace mpnanny::imports

#endif  // MPNANNY_ENGINES_RUNS_IMPORT_EARLIER_MONITOR_H_
