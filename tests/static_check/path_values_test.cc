// What expressions give where some variables are known.
#include "engines/check/facts/path_values.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/static_check/read_project.h"

namespace mpnanny::check {
namespace {

PathConstant NumberOf(double number, bool tensor = false) {
  return {PathConstant::Kind::kNumber, number, "", tensor};
}

// "3", "3 tensor", "'adam'", "None", "" if it is not known.
std::string Shown(const std::optional<PathConstant>& value) {
  if (!value) return "";
  if (value->kind == PathConstant::Kind::kNone) return "None";
  if (value->kind == PathConstant::Kind::kText) return "'" + value->text + "'";
  std::string number = std::to_string(value->number);
  number.resize(number.find_last_not_of('0') + 1);
  if (number.ends_with('.')) number.pop_back();
  return number + (value->tensor ? " tensor" : "");
}

std::string Evaluated(const std::string& expression) {
  PathValues values;
  values.Set("n", NumberOf(3));
  values.Set("on", NumberOf(1));
  values.Set("off", NumberOf(0));
  values.Set("kind", {PathConstant::Kind::kText, 0, "adam", false});
  values.Set("nothing", {});
  values.Set("bad", NumberOf(0, true));
  values.Set("self.n", NumberOf(5));
  const ReadProject project("import torch\nprobe(" + expression + ")\n");
  return Shown(values.Evaluate(project.file().bindings, project.Probed()));
}

struct Valued {
  std::string expression, value;
};

void ExpectValues(const std::vector<Valued>& cases) {
  for (const auto& [expression, value] : cases)
    EXPECT_EQ(Evaluated(expression), value) << expression;
}

TEST(PathValues, LiteralsAndVariables) {
  ExpectValues({{"True", "1"},
                {"False", "0"},
                {"None", "None"},
                {"2", "2"},
                {"2.5", "2.5"},
                {"'adam'", "'adam'"},
                {"\"adam\"", "'adam'"},
                {"''", "''"},
                {"r'adam'", ""},
                {"f'{n}'", ""},
                {"'a\\\\n'", ""},
                {"'''adam'''", ""},
                {"\"\"\"adam\"\"\"", ""},
                {"n", "3"},
                {"self.n", "5"},
                {"other", ""},
                {"self.other", ""},
                {"(n)", "3"},
                {"[n]", ""}});
}

TEST(PathValues, Arithmetic) {
  ExpectValues({{"n + 1", "4"},    {"n - 1", "2"},
                {"n * 2", "6"},    {"n / 2", "1.5"},
                {"n % 2", "1"},    {"-n % 5", "2"},
                {"n / 0", ""},     {"n % 0", ""},
                {"n % -2", ""},    {"n ** 2", ""},
                {"n // 2", ""},    {"-n", "-3"},
                {"+n", ""},        {"~n", ""},
                {"-kind", ""},     {"n + kind", ""},
                {"kind + n", ""},  {"n + other", ""},
                {"other + n", ""}, {"1e308 * 10 - 1e308 * 10", ""},
                {"not n", "0"},    {"not nothing", "1"},
                {"not kind", "0"}, {"not ''", "1"},
                {"not other", ""}, {"n - 1 - 1 - 1", "0"}});
}

TEST(PathValues, Comparisons) {
  ExpectValues({{"n == 3", "1"},          {"n == 4", "0"},
                {"n != 3", "0"},          {"n != 4", "1"},
                {"n < 3", "0"},           {"n < 4", "1"},
                {"n <= 3", "1"},          {"n <= 2", "0"},
                {"n > 3", "0"},           {"n > 2", "1"},
                {"n >= 3", "1"},          {"n >= 4", "0"},
                {"kind == 'adam'", "1"},  {"kind == 'sgd'", "0"},
                {"kind != 'sgd'", "1"},   {"kind < 'sgd'", ""},
                {"kind > 1", ""},         {"1 > kind", ""},
                {"nothing is None", "1"}, {"n is None", "0"},
                {"n is not None", "1"},   {"nothing is not None", "0"},
                {"nothing == 0", "0"},    {"kind == 0", "0"},
                {"n in (3, 4)", ""},      {"1 < n < 4", ""},
                {"n == other", ""},       {"other == n", ""},
                {"on == True", "1"},      {"off is False", "1"}});
}

TEST(PathValues, TensorsOfOneElement) {
  ExpectValues({{"bad", "0 tensor"},
                {"bad.item()", "0"},
                {"bad.cpu()", "0 tensor"},
                {"bad.any()", "0 tensor"},
                {"bad.float()", "0 tensor"},
                {"bad.sum()", ""},
                {"n.item()", ""},
                {"other.item()", ""},
                {"bad > 0", "0"},
                {"torch.tensor(2)", "2 tensor"},
                {"torch.tensor([2])", "2 tensor"},
                {"torch.tensor([2, 3])", ""},
                {"torch.tensor(data=n)", "3 tensor"},
                {"torch.as_tensor(2)", "2 tensor"},
                {"torch.tensor(kind)", ""},
                {"torch.tensor(other)", ""},
                {"torch.zeros(1)", "0 tensor"},
                {"torch.ones(1)", "1 tensor"},
                {"torch.ones(())", "1 tensor"},
                {"torch.ones([])", "1 tensor"},
                {"torch.zeros((1,))", "0 tensor"},
                {"torch.zeros([1])", "0 tensor"},
                {"torch.zeros(size=(1,))", "0 tensor"},
                {"torch.zeros(1, device='cuda')", "0 tensor"},
                {"torch.zeros(1, 2)", ""},
                {"torch.zeros(2)", ""},
                {"torch.full(1, 2)", ""}});
}

TEST(PathValues, Functions) {
  ExpectValues(
      {{"bool(n)", "1"},     {"bool(bad)", "0"},    {"int(2.5)", "2"},     {"int(-2.5)", "-2"},
       {"float(n)", "3"},    {"abs(-n)", "3"},      {"abs(n)", "3"},       {"bool(kind)", ""},
       {"int(n, 2)", ""},    {"bool(other)", ""},   {"max(n, 7)", "7"},    {"max(7, n)", "7"},
       {"min(n, 7)", "3"},   {"min(7, n)", "3"},    {"max(n)", ""},        {"max(n, other)", ""},
       {"max(n, kind)", ""}, {"max(1, n, 2)", "3"}, {"min(4, n, 5)", "3"}, {"sum(n, 1)", ""},
       {"round(n)", ""},     {"int(bad)", "0"}});
}

// Of x also x.y and x[0]; what only begins alike is another variable.
TEST(PathValues, Forgets) {
  const auto left = [](const std::string& forgotten) {
    PathValues values;
    for (const char* name : {"x", "x.y", "x[0]", "xy", "y.x"}) values.Set(name, NumberOf(1));
    values.Forget(forgotten);
    std::string names;
    for (const char* name : {"x", "x.y", "x[0]", "xy", "y.x"})
      names += values.Of(name) == nullptr ? "" : std::string(name) + " ";
    return names;
  };
  EXPECT_EQ(left("x"), "xy y.x ");
  EXPECT_EQ(left("x[0]"), "xy y.x ");
  EXPECT_EQ(left("x.y"), "x x[0] xy y.x ");
  EXPECT_EQ(left("y"), "x x.y x[0] xy ");
  EXPECT_EQ(left("z"), "x x.y x[0] xy y.x ");
}

TEST(PathValues, Truth) {
  EXPECT_TRUE(NumberOf(2).IsTrue());
  EXPECT_FALSE(NumberOf(0).IsTrue());
  EXPECT_FALSE(PathConstant{}.IsTrue());
  EXPECT_TRUE((PathConstant{PathConstant::Kind::kText, 0, "a", false}).IsTrue());
  EXPECT_FALSE((PathConstant{PathConstant::Kind::kText, 0, "", false}).IsTrue());
}

}  // namespace
}  // namespace mpnanny::check
