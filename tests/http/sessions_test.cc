#include "server/http/sessions.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "server/http_server.h"
#include "server/transport/http/thread_cache.h"

namespace mpnanny {
namespace {

struct Table {
  explicit Table(SessionLimits limits = {})
      : sessions(limits, [this](Session& session) { ended.insert(session.id()); }) {}
  std::set<std::string> ended;
  Sessions sessions;
};

TEST(Sessions, AreFoundOnceTheyAreAdmitted) {
  Table table;
  const auto session = table.sessions.Create();
  EXPECT_EQ(table.sessions.Find(session->id()), nullptr);
  EXPECT_TRUE(table.sessions.Admit(session));
  EXPECT_EQ(table.sessions.Find(session->id()), session);
  EXPECT_EQ(table.sessions.Find(""), nullptr);
  table.sessions.End(session->id());
  EXPECT_EQ(table.sessions.Find(session->id()), nullptr);
  EXPECT_TRUE(table.ended.contains(session->id()));
}

TEST(Sessions, HaveIdsThatNobodyGuesses) {
  Table table;
  std::set<std::string> ids;
  for (int i = 0; i < 200; ++i) ids.insert(table.sessions.Create()->id());
  EXPECT_EQ(ids.size(), 200u);
  for (const std::string& id : ids) {
    EXPECT_EQ(id.size(), 32u);
    EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos);
  }
}

TEST(Sessions, TheLongestIdleOneMakesRoom) {
  Table table({.most = 2});
  const auto start = [&] {
    const auto session = table.sessions.Create();
    EXPECT_TRUE(table.sessions.Admit(session));
    return session->id();
  };
  const std::string first = start();
  const std::string second = start();
  EXPECT_NE(table.sessions.Find(first), nullptr);  // the second is idle for longer now
  const std::string third = start();
  EXPECT_EQ(table.ended, (std::set<std::string>{second}));
  EXPECT_NE(table.sessions.Find(first), nullptr);
  EXPECT_NE(table.sessions.Find(third), nullptr);
}

TEST(Sessions, OnesInUseAreNotEnded) {
  Table table({.most = 1, .idle = std::chrono::seconds(0)});
  auto used = table.sessions.Create();
  EXPECT_TRUE(table.sessions.Admit(used));
  EXPECT_FALSE(table.sessions.Admit(table.sessions.Create()));
  EXPECT_TRUE(table.ended.empty());
  const std::string id = used->id();
  used.reset();
  EXPECT_TRUE(table.sessions.Admit(table.sessions.Create()));
  EXPECT_EQ(table.ended, (std::set<std::string>{id}));
}

TEST(Sessions, KeepABoundedNumberOfStreams) {
  Table table({.kept_streams = 2});
  const auto session = table.sessions.Create();
  const auto open = std::make_shared<EventStream>();
  const auto over = std::make_shared<EventStream>();
  EXPECT_EQ(session->Keep(open), 1u);
  EXPECT_EQ(session->Keep(over), 2u);
  over->End();
  EXPECT_EQ(session->Keep(std::make_shared<EventStream>()), 3u);
  EXPECT_EQ(session->Find(1), open) << "one that has ended is forgotten first";
  EXPECT_EQ(session->Find(2), nullptr);
  EXPECT_NE(session->Find(kOwnStream), nullptr);
  EXPECT_EQ(session->Keep(std::make_shared<EventStream>()), std::nullopt)
      << "one that goes on is never forgotten";
  EXPECT_EQ(session->Find(1), open);
}

// A stream that ended with an answer of so many bytes.
std::shared_ptr<EventStream> Ended(size_t bytes) {
  auto stream = std::make_shared<EventStream>();
  stream->Send({{"jsonrpc", "2.0"}, {"id", 1}, {"result", std::string(bytes, 'x')}});
  stream->End();
  return stream;
}

TEST(Sessions, KeepABoundedNumberOfBytes) {
  Table table({.kept_bytes = 10'000});
  const auto session = table.sessions.Create();
  ASSERT_TRUE(table.sessions.Admit(session));
  const auto unread = Ended(4000);
  const auto read = Ended(4000);
  ASSERT_EQ(session->Keep(unread), 1u);
  ASSERT_EQ(session->Keep(read), 2u);
  StreamMessage message;
  ASSERT_EQ(read->Take(0, message), EventStream::Next::kMessage);
  ASSERT_EQ(session->Keep(Ended(4000)), 3u);
  EXPECT_NE(table.sessions.Find(session->id()), nullptr);
  EXPECT_EQ(session->Find(2), nullptr) << "it was delivered";
  EXPECT_EQ(session->Find(1), unread);
  const auto running = std::make_shared<EventStream>();
  ASSERT_EQ(session->Keep(running), 4u);
  for (int i = 0; i < 5; ++i) {
    running->Send({{"jsonrpc", "2.0"}, {"id", i}, {"method", std::string(4000, 'x')}});
  }
  EXPECT_NE(table.sessions.Find(session->id()), nullptr);
  EXPECT_EQ(session->Find(1), nullptr);
  EXPECT_EQ(session->Find(4), running);
  EXPECT_EQ(session->Keep(Ended(1)), std::nullopt) << "there is no room, and nothing may go";
}

TEST(Sessions, KeepABoundedNumberOfBytesTogether) {
  // Whichever goes, the other three have room.
  Table table({.kept_bytes_of_all = 11'000});
  std::vector<Sessions::Use> sessions;
  for (int i = 0; i < 4; ++i) {
    sessions.push_back(table.sessions.Create());
    ASSERT_TRUE(table.sessions.Admit(sessions.back()));
    if (i < 3) {
      EXPECT_EQ(sessions.back()->Keep(Ended(3000)), 1u);
    }
  }
  ASSERT_EQ(sessions[3]->Keep(Ended(4000)), 1u);
  EXPECT_NE(table.sessions.Find(sessions[3]->id()), nullptr);
  int left = 0;
  for (const auto& session : sessions) left += session->Find(1) ? 1 : 0;
  EXPECT_EQ(left, 3);
}

TEST(ThreadCache, RunsAsMuchAtOnceAsItMayAndUsesThreadsAgain) {
  ThreadCache cache(2);
  std::atomic<bool> go{false};
  std::atomic<int> running{0};
  const auto work = [&] {
    ++running;
    while (!go) std::this_thread::yield();
    --running;
  };
  EXPECT_TRUE(cache.Run(work));
  EXPECT_TRUE(cache.Run(work));
  EXPECT_FALSE(cache.Run(work)) << "both are busy";
  go = true;
  int ran = 0;
  for (int i = 0; i < 1000; ++i) {
    std::atomic<bool> done{false};
    while (!cache.Run([&] { done = true; })) std::this_thread::yield();
    while (!done) std::this_thread::yield();
    ++ran;
  }
  cache.Finish();
  EXPECT_EQ(ran, 1000);
  EXPECT_EQ(running, 0);
  EXPECT_FALSE(cache.Run(work)) << "it has finished";
}

TEST(HostAndPort, IsReadFromTheOption) {
  EXPECT_EQ(ParseHostAndPort("127.0.0.1:8765")->port, 8765);
  EXPECT_EQ(ParseHostAndPort("localhost:0")->host, "localhost");
  EXPECT_EQ(ParseHostAndPort("[::1]:80")->host, "::1");
  for (const char* text : {"", "8765", ":8765", "localhost", "localhost:", "localhost:-1",
                           "localhost:65536", "localhost:80x", "::1:80", "[]:80"}) {
    EXPECT_FALSE(ParseHostAndPort(text)) << text;
  }
}

}  // namespace
}  // namespace mpnanny
