// How people speak, and what the cases say instead.
//
// Added where plain BM25 missed a query of tests/search_knowledge/queries.tsv or an obvious way to
// put it. An entry's phrase is looked for in the lower-case query as a whole text ("lr " with its
// blank is not found in "slr"); its words join the query and count like typed ones, so an entry is
// kept narrow.
#include "tools/search_knowledge/words.h"

namespace mpnanny::search_knowledge {
namespace {

struct Entry {
  std::string_view phrase;
  std::string_view words;
};

constexpr Entry kSynonyms[] = {
    {"bfloat16", "bf16"},
    {"float16", "fp16 half"},
    {"amp ", "autocast mixed"},
    {" lr ", "learning rate"},
    {"explod", "diverges spikes climbs"},
    {"dataset", "input data"},
    {"log(0)", "log zero"},
    {"divide by zero", "division zero"},
    {"halv", "falls declines"},
    {"爆炸", "发散 突增"},
    {"突然变大", "突增 发散"},
    {"飙升", "突增 发散"},
    {"炸了", "发散 nan"},
    {"不收敛", "停滞 收敛变差"},
    {"不更新", "权重不变"},
    {"学习率太大", "学习率过大"},
    {"学习率太高", "学习率过大"},
    {"混合精度", "autocast"},
};

}  // namespace

std::string Synonyms(std::string_view lower_query) {
  std::string words;
  for (const Entry& entry : kSynonyms) {
    if (lower_query.find(entry.phrase) == std::string_view::npos) continue;
    words.append(entry.words).append(" ");
  }
  return words;
}

}  // namespace mpnanny::search_knowledge
