// A whole case page without a fault, for tests to spoil.
#ifndef MPNANNY_TESTS_CASES_PAGE_H_
#define MPNANNY_TESTS_CASES_PAGE_H_

#include <gtest/gtest.h>

#include <string>

namespace mpnanny::cases {

inline std::string GoodPage(const std::string& id) {
  return "---\nid: " + id + R"(
kind: failure
title: A title
symptom: A symptom
title_zh: 标题
symptom_zh: 症状
posted: [loss is nan, it is inf, "error: half", 损失变成 nan, 炸了]
category: nan-inf
severity: P0
difficulty: easy
precision: [fp16]
components: [loss]
detectable_by: [monitor]
frameworks: [pytorch]
devices: [any]
versions: [torch>=2.4]
verified: 2026-11-23
verified_with: [torch 2.13.0]
signals:
  - {signal: "alert:INF@loss", weight: 2.5}
evidence: [https://example.org/1]
related: [clip-before-unscale]
---
## Symptom
s
## Mechanism
Above 65504.
## How to confirm
c
## Fix
f
## Code
```python
# bad: x
```
```python
# good: y
```
)";
}

// `text` with the first `from`, which must be there, made `to`.
inline std::string Replace(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

}  // namespace mpnanny::cases

#endif  // MPNANNY_TESTS_CASES_PAGE_H_
