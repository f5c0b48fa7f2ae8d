// The fields of each row under the names that a file has for them. One walk reads, writes and shows
// them, so that a field stands here once: visit(name, field).
//
// Templates without state; the row is changed where the visitor changes a field.
#ifndef MPNANNY_ENGINES_JUDGEMENT_FIELDS_H_
#define MPNANNY_ENGINES_JUDGEMENT_FIELDS_H_

#include <concepts>
#include <iterator>
#include <type_traits>
#include <variant>

#include "engines/judgement/tape.h"

namespace mpnanny::judgement {

// A row's word in a file, in the order of Row.
inline constexpr const char* kRowWords[] = {
    "place",     "figures",  "enters",         "call",   "result",   "indices",   "mask",
    "decided",   "read",     "leaves",         "fed",    "loss",     "output",    "gradient_again",
    "optimizer", "gradient", "optimizer_ends", "change", "together", "lost_line", "kept_at_random",
    "state",     "answer"};
static_assert(std::size(kRowWords) == std::variant_size_v<Row>);

template <typename T, typename Type>
concept Is = std::same_as<std::remove_const_t<T>, Type>;

void Fields(Is<ReferenceError> auto& found, auto&& visit) {
  visit("numel", found.numel);
  visit("range", found.range);
  visit("undefined", found.undefined);
  visit("infinite", found.infinite);
  visit("reference_only", found.reference_only);
  visit("nonzero", found.nonzero);
  visit("flushed", found.flushed);
  visit("flushed_that_matter", found.flushed_that_matter);
  visit("flushed_in_range", found.flushed_in_range);
  visit("flushed_that_matter_in_range", found.flushed_that_matter_in_range);
  visit("wrong_integers", found.wrong_integers);
  visit("clipped", found.clipped);
  visit("integers", found.integers);
  visit("squared_error", found.squared_error);
  visit("squared_reference", found.squared_reference);
  visit("squared_flushed", found.squared_flushed);
  visit("max_error", found.max_error);
  visit("max_reference", found.max_reference);
  visit("max_held", found.max_held);
}

void Fields(Is<ChangeError> auto& found, auto&& visit) {
  visit("numel", found.numel);
  visit("moved", found.moved);
  visit("lost", found.lost);
  visit("change", found.change);
  visit("lost_change", found.lost_change);
  visit("kept_change", found.kept_change);
  visit("squared_change", found.squared_change);
  visit("squared_error", found.squared_error);
}

// Of the tape itself: what its first line tells.
void Fields(Is<Tape> auto& tape, auto&& visit) {
  visit("step", tape.step);
  visit("first_loss", tape.first_loss);
}

void Fields(Is<Place> auto& row, auto&& visit) {
  visit("op", row.op);
  visit("forward", row.forward);
  visit("phase", row.phase);
  visit("file", row.file);
  visit("line", row.line);
  visit("module", row.module);
}

void Fields(Is<Figures> auto& row, auto&& visit) {
  visit("slot", row.slot);
  Fields(row.found, visit);
}

void Fields(Is<Enters> auto& row, auto&& visit) {
  visit("memory", row.memory);
  visit("error", row.error);
}

void Fields(Is<Input> auto& input, auto&& visit) {
  visit("memory", input.memory);
  visit("type", input.type);
  visit("position", input.position);
  visit("slot", input.slot);
  visit("read", input.read);
}

void Fields(Is<Call> auto& row, auto&& visit) {
  visit("number", row.number);
  visit("place", row.place);
  visit("kept", row.kept);
  visit("inputs", row.inputs);
}

void Fields(Is<Result> auto& row, auto&& visit) {
  visit("call", row.call);
  visit("index", row.index);
  visit("memory", row.memory);
  visit("type", row.type);
  visit("shape", row.shape);
  visit("position", row.position);
  visit("slot", row.slot);
  visit("rounding", row.rounding);
  visit("written", row.written);
  visit("state", row.state);
}

void Fields(Is<Indices> auto& row, auto&& visit) {
  visit("call", row.call);
  visit("index", row.index);
  visit("type", row.type);
  visit("shape", row.shape);
  visit("share", row.share);
}

void Fields(Is<Mask> auto& row, auto&& visit) {
  visit("call", row.call);
  visit("mask", row.mask);
  visit("share", row.share);
}

void Fields(Is<Decided> auto& row, auto&& visit) {
  visit("mask", row.mask);
  visit("source", row.source);
}

void Fields(Is<Read> auto& row, auto&& visit) {
  visit("memory", row.memory);
  visit("source", row.source);
}

void Fields(Is<Leaves> auto& row, auto&& visit) {
  visit("memory", row.memory);
  visit("to_backward", row.to_backward);
}

void Fields(Is<Fed> auto& row, auto&& visit) {
  visit("call", row.call);
  visit("input", row.input);
}

void Fields(Is<Loss> auto& row, auto&& visit) {
  visit("memory", row.memory);
  visit("slot", row.slot);
  visit("size", row.size);
  visit("alone", row.alone);
}

void Fields(Is<Output> auto& row, auto&& visit) { visit("memory", row.memory); }

void Fields(Is<GradientAgain> auto& row, auto&& visit) {
  visit("name", row.name);
  visit("memory", row.memory);
}

void Fields(Is<Optimizer> auto& row, auto&& visit) {
  visit("skipped_at", row.skipped_at);
  visit("alone", row.alone);
}

void Fields(Is<Gradient> auto& row, auto&& visit) {
  visit("name", row.name);
  visit("memory", row.memory);
  visit("slot", row.slot);
}

void Fields(Is<OptimizerEnds> auto&, auto&&) {}

void Fields(Is<Change> auto& row, auto&& visit) {
  visit("call", row.call);
  visit("made", row.made);
  visit("index", row.index);
  visit("memory", row.memory);
  visit("type", row.type);
  visit("shape", row.shape);
  visit("name", row.name);
  visit("slot", row.slot);
  visit("seen", row.seen);
  visit("in_parts", row.in_parts);
  Fields(row.found, visit);
}

void Fields(Is<Together> auto& row, auto&& visit) {
  visit("name", row.name);
  Fields(row.found, visit);
}

void Fields(Is<LostLine> auto& row, auto&& visit) {
  visit("seen", row.seen);
  visit("name", row.name);
  visit("excused", row.excused);
  visit("magnitude", row.magnitude);
  visit("mean", row.mean);
  visit("held_sum", row.held_sum);
}

void Fields(Is<KeptAtRandom> auto& row, auto&& visit) { visit("name", row.name); }

void Fields(Is<State> auto& row, auto&& visit) {
  visit("name", row.name);
  visit("memory", row.memory);
  visit("slot", row.slot);
}

void Fields(Is<Answer> auto& row, auto&& visit) {
  visit("asked", row.asked);
  visit("call", row.call);
  visit("at", row.at);
  visit("numbers", row.numbers);
  visit("words", row.words);
}

}  // namespace mpnanny::judgement

#endif  // MPNANNY_ENGINES_JUDGEMENT_FIELDS_H_
