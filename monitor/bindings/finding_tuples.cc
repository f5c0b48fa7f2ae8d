#include "monitor/bindings/finding_tuples.h"

#include <string>
#include <vector>

#include "monitor/bindings/convert.h"
#include "monitor/bindings/lists.h"

namespace mpnanny {
namespace {

PyObject* Texts(const std::vector<std::string>& texts) {
  return ListOf(texts, [](const std::string& each) { return Text(each); });
}

PyObject* LostTuple(const std::optional<judgement::LostChange>& lost) {
  if (!lost) return NoneObject();
  return Py_BuildValue("(iiiddN)", lost->steps, lost->lost_in, lost->since, lost->half_ulp,
                       lost->relative_change, PyBool_FromLong(lost->lost_before));
}

}  // namespace

PyObject* CureTuple(const std::optional<judgement::Cure>& cure) {
  if (!cure) return NoneObject();
  return Py_BuildValue("(NNNdd)", Texts(cure->lines), Texts(cure->operators), Text(cure->what),
                       cure->error_before, cure->error_after);
}

PyObject* FiguresTuple(const ReferenceError& found) {
  const auto count = [](int64_t value) { return static_cast<long long>(value); };
  return Py_BuildValue("(LLLLLLLLLNddddddLLL)", count(found.numel), count(found.range),
                       count(found.undefined), count(found.infinite), count(found.reference_only),
                       count(found.nonzero), count(found.flushed), count(found.wrong_integers),
                       count(found.clipped), PyBool_FromLong(found.integers), found.squared_error,
                       found.squared_reference, found.squared_flushed, found.max_error,
                       found.max_reference, found.max_held, count(found.flushed_that_matter),
                       count(found.flushed_in_range), count(found.flushed_that_matter_in_range));
}

PyObject* CameInTuple(const judgement::CameIn& came_in) {
  return Py_BuildValue("(iNd)", came_in.place, Text(came_in.dtype), came_in.error);
}

PyObject* FindingTuple(const judgement::Finding& finding) {
  const auto whole = [](int64_t each) { return PyLong_FromLongLong(each); };
  const auto reach = [](const judgement::Reach& each) {
    return Py_BuildValue("(NNd)", Text(NameOf(each.what)), Text(each.name), each.error);
  };
  const auto pair = [](const std::array<double, 2>& each) {
    return Py_BuildValue("[dd]", each[0], each[1]);
  };
  const auto line = [](const std::pair<std::string, std::string>& each) {
    return Py_BuildValue("(NN)", Text(each.first), Text(each.second));
  };
  const auto& carried = finding.carried;
  PyObject* carrier = carried ? Py_BuildValue("(NNN)", Text(NameOf(carried->kind)),
                                              Text(carried->whose), Text(carried->made_at))
                              : NoneObject();
  const auto& singular = finding.singular;
  PyObject* pole = singular ? Py_BuildValue("(NddNN)", PyBool_FromLong(singular->is_pole),
                                            singular->held, singular->reference,
                                            Text(singular->zero_op), Text(singular->zero_at))
                            : NoneObject();
  return Py_BuildValue(
      "(NiiNNddddiNNNNiNNNNNNNNN)", Text(NameOf(finding.kind)), finding.place, finding.number,
      Text(finding.dtype), ListOf(finding.shape, whole), finding.share, finding.magnitude,
      finding.error_in, finding.error_out, finding.parent, Text(NameOf(finding.precision)),
      CureTuple(finding.cure), Text(NameOf(finding.severity)), PyBool_FromLong(finding.discarded),
      finding.count, ListOf(finding.reach, reach), Text(finding.why_no_cure),
      ListOf(finding.operands, pair), ListOf(finding.inputs_from, line),
      finding.came_in ? CameInTuple(*finding.came_in) : NoneObject(),
      PyBool_FromLong(finding.rounded_before), carrier, LostTuple(finding.lost), pole);
}

}  // namespace mpnanny
