#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace lockstep::control::kube {

// The largest object or watch event that is accepted. An API server takes requests of 3 MB, and
// what it keeps is smaller; choice: above that with room for growth.
inline constexpr std::size_t kObjectBytesMax = std::size_t{8} << 20;

// What a LIST says about itself.
struct ListHead {
  std::string resource_version;
  std::string continue_token;  // empty: this was the last page
};

// Cuts the body of a LIST into its items while it arrives, so that it is never held whole.
//
//   {"kind": .., "metadata": {"resourceVersion": .., "continue": ..}, "items": [ITEM, ITEM, ..]}
//
// Looks at quotes, braces and brackets only: whether an item is proper JSON is for its decoder to
// say. Thread: one.
class ListSplitter {
 public:
  // The text of one item, valid during the call.
  using OnItem = std::function<void(std::string_view json)>;

  // The next bytes, cut anywhere. Errors: kCorrupt (no list; nothing useful follows),
  // kResourceExhausted (an item above kObjectBytesMax).
  Status Feed(std::string_view bytes, const OnItem& on_item);

  // After the last byte. Errors: kCorrupt (the list is not whole).
  Result<ListHead> Finish() const;

 private:
  // What the bytes between two commas of the outermost object are.
  enum class Part { kKey, kOther, kMetadata, kItems };
  enum class Capture { kNone, kItem, kMetadata };

  Status OnOutsideString(char c);
  Status Open(char c);
  void Close();
  Status AppendCapture(Capture kind, std::string_view text);

  int depth_ = 0;
  bool is_in_string_ = false;
  bool is_escaped_ = false;
  bool is_done_ = false;
  bool has_items_ = false;
  Part part_ = Part::kKey;
  std::string key_;     // the last one of the outermost object; only as much as is recognised
  std::string scalar_;  // "items" that are no list, of which only null is right
  Capture capture_ = Capture::kNone;
  std::string captured_;
  std::string metadata_;
};

// Cuts the body of a watch into its events, one a line, while it arrives. A line is a line only
// with its end: what a broken connection leaves behind is dropped with the framer. Thread: one.
class LineFramer {
 public:
  // One line without its end and not empty, valid during the call. Returns whether to go on.
  using OnLine = std::function<bool(std::string_view line)>;

  // The next bytes, cut anywhere. After `on_line` returned false the rest is dropped.
  // Errors: kResourceExhausted (a line above kObjectBytesMax).
  Status Feed(std::string_view bytes, const OnLine& on_line);

 private:
  std::string partial_;
};

}  // namespace lockstep::control::kube
