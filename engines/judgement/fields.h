// The fields of each row under the names that a file has for them. One walk reads, writes and shows
// them, so that a field stands here once: visit(name, field), in the order in which the row has
// them. A row with a field that does not stand here does not compile.
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
    "place",  "figures",  "enters",         "call",           "result",   "indices",
    "mask",   "decided",  "read",           "leaves",         "formats",  "fed",
    "loss",   "output",   "gradient_again", "optimizer",      "gradient", "optimizer_ends",
    "change", "together", "lost_line",      "kept_at_random", "state",    "answer"};
static_assert(std::size(kRowWords) == std::variant_size_v<Row>);

template <typename T, typename Type>
concept Is = std::same_as<std::remove_const_t<T>, Type>;

void Fields(Is<ReferenceError> auto& found, auto&& visit) {
  auto& [numel, range, undefined, infinite, reference_only, nonzero, flushed, wrong_integers,
         clipped, integers, squared_error, squared_reference, squared_flushed, max_error,
         max_reference, max_held, flushed_that_matter, flushed_in_range,
         flushed_that_matter_in_range] = found;
  visit("numel", numel);
  visit("range", range);
  visit("undefined", undefined);
  visit("infinite", infinite);
  visit("reference_only", reference_only);
  visit("nonzero", nonzero);
  visit("flushed", flushed);
  visit("wrong_integers", wrong_integers);
  visit("clipped", clipped);
  visit("integers", integers);
  visit("squared_error", squared_error);
  visit("squared_reference", squared_reference);
  visit("squared_flushed", squared_flushed);
  visit("max_error", max_error);
  visit("max_reference", max_reference);
  visit("max_held", max_held);
  visit("flushed_that_matter", flushed_that_matter);
  visit("flushed_in_range", flushed_in_range);
  visit("flushed_that_matter_in_range", flushed_that_matter_in_range);
}

void Fields(Is<ChangeError> auto& found, auto&& visit) {
  auto& [numel, moved, lost, change, lost_change, kept_change, squared_change, squared_error] =
      found;
  visit("numel", numel);
  visit("moved", moved);
  visit("lost", lost);
  visit("change", change);
  visit("lost_change", lost_change);
  visit("kept_change", kept_change);
  visit("squared_change", squared_change);
  visit("squared_error", squared_error);
}

void Fields(Is<FormatErrors> auto& found, auto&& visit) {
  auto& [numel, finite, absmax, rms, fp16, bf16, e4m3, e5m2, e4m3_scale, e5m2_scale, fp16_overflow,
         fp16_underflow] = found;
  visit("numel", numel);
  visit("finite", finite);
  visit("absmax", absmax);
  visit("rms", rms);
  visit("fp16", fp16);
  visit("bf16", bf16);
  visit("e4m3", e4m3);
  visit("e5m2", e5m2);
  visit("e4m3_scale", e4m3_scale);
  visit("e5m2_scale", e5m2_scale);
  visit("fp16_overflow", fp16_overflow);
  visit("fp16_underflow", fp16_underflow);
}

// Of the tape itself: what its first line tells.
void Fields(Is<Tape> auto& tape, auto&& visit) {
  visit("step", tape.step);
  visit("first_loss", tape.first_loss);
}

void Fields(Is<Place> auto& row, auto&& visit) {
  auto& [op, forward, phase, file, line, module] = row;
  visit("op", op);
  visit("forward", forward);
  visit("phase", phase);
  visit("file", file);
  visit("line", line);
  visit("module", module);
}

void Fields(Is<Figures> auto& row, auto&& visit) {
  auto& [slot, found] = row;
  visit("slot", slot);
  Fields(found, visit);
}

void Fields(Is<Enters> auto& row, auto&& visit) {
  auto& [memory, error] = row;
  visit("memory", memory);
  visit("error", error);
}

void Fields(Is<Input> auto& input, auto&& visit) {
  auto& [memory, type, offset, position, slot, read] = input;
  visit("memory", memory);
  visit("type", type);
  visit("offset", offset);
  visit("position", position);
  visit("slot", slot);
  visit("read", read);
}

void Fields(Is<Call> auto& row, auto&& visit) {
  auto& [number, place, kept, inputs] = row;
  visit("number", number);
  visit("place", place);
  visit("kept", kept);
  visit("inputs", inputs);
}

void Fields(Is<Result> auto& row, auto&& visit) {
  auto& [call, index, memory, type, shape, position, slot, rounding, written, state] = row;
  visit("call", call);
  visit("index", index);
  visit("memory", memory);
  visit("type", type);
  visit("shape", shape);
  visit("position", position);
  visit("slot", slot);
  visit("rounding", rounding);
  visit("written", written);
  visit("state", state);
}

void Fields(Is<Indices> auto& row, auto&& visit) {
  auto& [call, index, type, shape, share] = row;
  visit("call", call);
  visit("index", index);
  visit("type", type);
  visit("shape", shape);
  visit("share", share);
}

void Fields(Is<Mask> auto& row, auto&& visit) {
  auto& [call, mask, share] = row;
  visit("call", call);
  visit("mask", mask);
  visit("share", share);
}

void Fields(Is<Decided> auto& row, auto&& visit) {
  auto& [mask, source] = row;
  visit("mask", mask);
  visit("source", source);
}

void Fields(Is<Read> auto& row, auto&& visit) {
  auto& [memory, source] = row;
  visit("memory", memory);
  visit("source", source);
}

void Fields(Is<Leaves> auto& row, auto&& visit) {
  auto& [memory, place, type, offset] = row;
  visit("memory", memory);
  visit("place", place);
  visit("type", type);
  visit("offset", offset);
}

void Fields(Is<Formats> auto& row, auto&& visit) {
  auto& [layer, found] = row;
  visit("layer", layer);
  Fields(found, visit);
}

void Fields(Is<Fed> auto& row, auto&& visit) {
  auto& [call, input] = row;
  visit("call", call);
  visit("input", input);
}

void Fields(Is<Loss> auto& row, auto&& visit) {
  auto& [memory, slot, size, alone] = row;
  visit("memory", memory);
  visit("slot", slot);
  visit("size", size);
  visit("alone", alone);
}

void Fields(Is<Output> auto& row, auto&& visit) {
  auto& [memory, name, slot] = row;
  visit("memory", memory);
  visit("name", name);
  visit("slot", slot);
}

void Fields(Is<GradientAgain> auto& row, auto&& visit) {
  auto& [name, memory] = row;
  visit("name", name);
  visit("memory", memory);
}

void Fields(Is<Optimizer> auto& row, auto&& visit) {
  auto& [skipped_at, alone] = row;
  visit("skipped_at", skipped_at);
  visit("alone", alone);
}

void Fields(Is<Gradient> auto& row, auto&& visit) {
  auto& [name, memory, slot] = row;
  visit("name", name);
  visit("memory", memory);
  visit("slot", slot);
}

void Fields(Is<OptimizerEnds> auto&, auto&&) {}

void Fields(Is<Change> auto& row, auto&& visit) {
  auto& [call, made, index, memory, type, shape, name, slot, seen, in_parts, found] = row;
  visit("call", call);
  visit("made", made);
  visit("index", index);
  visit("memory", memory);
  visit("type", type);
  visit("shape", shape);
  visit("name", name);
  visit("slot", slot);
  visit("seen", seen);
  visit("in_parts", in_parts);
  Fields(found, visit);
}

void Fields(Is<Together> auto& row, auto&& visit) {
  auto& [name, found] = row;
  visit("name", name);
  Fields(found, visit);
}

void Fields(Is<LostLine> auto& row, auto&& visit) {
  auto& [seen, name, excused, magnitude, mean, held_sum] = row;
  visit("seen", seen);
  visit("name", name);
  visit("excused", excused);
  visit("magnitude", magnitude);
  visit("mean", mean);
  visit("held_sum", held_sum);
}

void Fields(Is<KeptAtRandom> auto& row, auto&& visit) {
  auto& [name] = row;
  visit("name", name);
}

void Fields(Is<State> auto& row, auto&& visit) {
  auto& [name, memory, slot] = row;
  visit("name", name);
  visit("memory", memory);
  visit("slot", slot);
}

void Fields(Is<Answer> auto& row, auto&& visit) {
  auto& [asked, call, at, numbers, words] = row;
  visit("asked", asked);
  visit("call", call);
  visit("at", at);
  visit("numbers", numbers);
  visit("words", words);
}

}  // namespace mpnanny::judgement

#endif  // MPNANNY_ENGINES_JUDGEMENT_FIELDS_H_
