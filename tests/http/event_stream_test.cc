#include "server/transport/http/event_stream.h"

#include <gtest/gtest.h>

#include "server/transport/http/sse.h"

namespace mpnanny {
namespace {

using Next = EventStream::Next;

Json Note(int n, size_t bytes = 0) {
  return {{"jsonrpc", "2.0"},
          {"method", "note"},
          {"params", {{"n", n}, {"x", std::string(bytes, 'x')}}}};
}

// The numbers of all messages that can be taken now.
std::vector<uint64_t> TakeAll(EventStream& stream, uint64_t reader, Next expected_end) {
  std::vector<uint64_t> numbers;
  StreamMessage message;
  Next next;
  while ((next = stream.Take(reader, message)) == Next::kMessage) numbers.push_back(message.number);
  EXPECT_EQ(next, expected_end);
  return numbers;
}

TEST(EventStream, TellsResponsesAndTheirErrors) {
  EventStream stream;
  stream.Send(Note(1));
  stream.Send({{"jsonrpc", "2.0"}, {"id", 1}, {"result", Json::object()}});
  stream.Send({{"jsonrpc", "2.0"}, {"id", 1}, {"error", {{"code", -32601}, {"message", "no"}}}});
  stream.Send(Json::array({Note(1)}));
  StreamMessage message;
  EXPECT_EQ(stream.Take(0, message), Next::kMessage);
  EXPECT_FALSE(message.is_response);
  EXPECT_EQ(stream.Take(0, message), Next::kMessage);
  EXPECT_TRUE(message.is_response);
  EXPECT_EQ(message.error_code, 0);
  EXPECT_EQ(stream.Take(0, message), Next::kMessage);
  EXPECT_EQ(message.error_code, -32601);
  EXPECT_EQ(stream.Take(0, message), Next::kMessage);
  EXPECT_TRUE(message.is_response) << "a batch of answers";
}

TEST(EventStream, EndsWhenItsSinkIsLetGoOf) {
  const auto stream = std::make_shared<EventStream>();
  auto sink = std::make_shared<StreamSink>(stream);
  auto copy = sink;
  sink->Send(Note(1));
  sink.reset();
  EXPECT_EQ(TakeAll(*stream, 0, Next::kNothing), (std::vector<uint64_t>{1}));
  copy.reset();
  EXPECT_EQ(TakeAll(*stream, 0, Next::kEnd), (std::vector<uint64_t>{}));
}

TEST(EventStream, DropsWhatNobodyWillRead) {
  EventStream stream;
  WakeEvent wake;
  const uint64_t reader = stream.Attach(wake);
  stream.Detach(reader);
  stream.Send(Note(1));
  EXPECT_EQ(TakeAll(stream, stream.Attach(wake), Next::kNothing), (std::vector<uint64_t>{}));
}

TEST(EventStream, KeptMessagesCanBeReadAgain) {
  EventStream stream;
  WakeEvent wake;
  stream.Keep();
  const uint64_t first = stream.Attach(wake);
  for (int i = 0; i < 5; ++i) stream.Send(Note(i));
  EXPECT_EQ(TakeAll(stream, first, Next::kNothing), (std::vector<uint64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(stream.position(), 5u);
  stream.Detach(first);
  stream.Send(Note(6));
  const uint64_t second = stream.AttachAfter(wake, 3).value();
  EXPECT_EQ(stream.position(), 3u);
  EXPECT_EQ(TakeAll(stream, second, Next::kNothing), (std::vector<uint64_t>{4, 5, 6}));
  stream.End();
  EXPECT_EQ(TakeAll(stream, second, Next::kEnd), (std::vector<uint64_t>{}));
}

TEST(EventStream, TheNewestReaderTakesOver) {
  EventStream stream;
  WakeEvent a;
  WakeEvent b;
  stream.Keep();
  const uint64_t first = stream.Attach(a);
  const uint64_t second = stream.Attach(b);
  stream.Send(Note(1));
  EXPECT_EQ(TakeAll(stream, first, Next::kReplaced), (std::vector<uint64_t>{}));
  stream.Detach(first);  // must not disturb the second
  EXPECT_EQ(TakeAll(stream, second, Next::kNothing), (std::vector<uint64_t>{1}));
}

TEST(EventStream, SuspendingEndsTheReaderButNotTheStream) {
  EventStream stream;
  WakeEvent wake;
  stream.Suspend();  // before anybody reads: meant for the one who comes
  stream.Keep();
  const uint64_t first = stream.Attach(wake);
  stream.Send(Note(1));
  EXPECT_EQ(TakeAll(stream, first, Next::kSuspended), (std::vector<uint64_t>{1}));
  stream.Detach(first);
  stream.Suspend();  // nobody reads: nothing to end
  const uint64_t second = stream.Attach(wake);
  stream.Send(Note(2));
  EXPECT_EQ(TakeAll(stream, second, Next::kNothing), (std::vector<uint64_t>{2}));
}

TEST(EventStream, AReaderThatIsTooSlowIsCutOff) {
  EventStream stream({.unread_bytes = 1000, .kept_bytes = 1000});
  WakeEvent wake;
  const uint64_t reader = stream.Attach(wake);
  stream.Send(Note(1, 5000));
  StreamMessage message;
  EXPECT_EQ(stream.Take(reader, message), Next::kMessage) << "one message may be of any size";
  stream.Send(Note(2, 600));
  stream.Send(Note(3, 600));
  EXPECT_EQ(stream.Take(reader, message), Next::kCut);
}

TEST(EventStream, WhatIsKeptIsBounded) {
  EventStream stream({.unread_bytes = 1000, .kept_bytes = 1000});
  WakeEvent wake;
  stream.Keep();
  for (int i = 1; i <= 50; ++i) stream.Send(Note(i, 100));
  const auto left = TakeAll(stream, stream.Attach(wake), Next::kNothing);
  EXPECT_LT(left.size(), 10u);
  EXPECT_GT(left.size(), 3u);
  EXPECT_EQ(left.back(), 50u) << "the newest stays";
}

TEST(EventStream, ProgressIsDroppedBeforeNoticesAndNothingElseIs) {
  EventStream stream({.unread_bytes = 1000, .kept_bytes = 1000});
  WakeEvent wake;
  stream.Keep();
  const std::string x(200, 'x');
  stream.Send({{"jsonrpc", "2.0"}, {"id", "q"}, {"method", "elicitation/create"}, {"params", x}});
  stream.Send(Note(2, 200));
  for (int i = 0; i < 20; ++i) {
    stream.Send({{"jsonrpc", "2.0"}, {"method", "notifications/progress"}, {"params", x}});
  }
  stream.Send({{"jsonrpc", "2.0"}, {"id", 1}, {"result", x}});
  const auto reader = stream.AttachAfter(wake, 0);
  ASSERT_TRUE(reader) << "what is passing is not missed";
  const auto left = TakeAll(stream, *reader, Next::kNothing);
  ASSERT_GE(left.size(), 3u);
  EXPECT_LT(left.size(), 6u);
  EXPECT_EQ(left[0], 1u);
  EXPECT_EQ(left[1], 2u);
  EXPECT_EQ(left.back(), 23u);
}

TEST(EventStream, AGapIsToldAndTheReaderStays) {
  EventStream stream({.unread_bytes = 1000, .kept_bytes = 1000});
  WakeEvent wake;
  stream.Keep();
  for (int i = 1; i <= 50; ++i) stream.Send(Note(i, 100));
  const uint64_t reader = stream.Attach(wake);
  EXPECT_EQ(stream.AttachAfter(wake, 3), std::nullopt) << "what came next is lost";
  EXPECT_EQ(stream.AttachAfter(wake, 51), std::nullopt) << "there was none of this number";
  EXPECT_GT(TakeAll(stream, reader, Next::kNothing).size(), 3u);
  EXPECT_TRUE(stream.AttachAfter(wake, 50));
}

TEST(EventStream, KeptBytesAreCountedAsLongAsItLives) {
  const auto all = std::make_shared<KeptBytes>();
  const auto some = std::make_shared<KeptBytes>(all);
  {
    EventStream stream;
    stream.Keep(nullptr, some);
    stream.Send(Note(1, 5000));
    EXPECT_GE(some->bytes(), 5000u);
    EXPECT_EQ(all->bytes(), some->bytes());
    StreamMessage message;
    EXPECT_EQ(stream.Take(0, message), Next::kMessage);
    EXPECT_GE(some->bytes(), 5000u) << "the client may come back for it";
  }
  EXPECT_EQ(some->bytes(), 0u);
  EXPECT_EQ(all->bytes(), 0u);
}

TEST(Sse, EventIdsAreReadBack) {
  EXPECT_EQ(ParseEventId(EventIdText({3, 17})), (EventId{3, 17}));
  for (const char* text :
       {"", "3", "3-", "-3", "3-1-2", "03-1", "3- 1", "a-1", "3-1x", "99999999999999999999999-1"}) {
    EXPECT_EQ(ParseEventId(text), std::nullopt) << text;
  }
}

TEST(Sse, EventsAreWrittenAsTheStandardWants) {
  std::string text;
  AppendPrimingEvent(text, {2, 0}, std::chrono::milliseconds(1500));
  AppendEvent(text, "{}", EventId{2, 1});
  AppendEvent(text, "[]", std::nullopt);
  EXPECT_EQ(text, "id: 2-0\nretry: 1500\ndata: \n\nid: 2-1\ndata: {}\n\ndata: []\n\n");
}

}  // namespace
}  // namespace mpnanny
