#include "operator/kubeclient/kube/json_stream.h"

#include <utility>
#include <vector>

#include "common/json/json.h"

namespace lockstep::control::kube {
namespace {

constexpr std::size_t kMetadataBytesMax = 64 * 1024;  // of a list: a version and a token
constexpr std::size_t kKeyBytesMax = 32;              // longer than every key we look for
constexpr std::string_view kNull = "null";

bool IsSpace(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

Error NoList(std::string what) {
  return {ErrorCode::kCorrupt, "not a list of objects: " + std::move(what)};
}

}  // namespace

Status ListSplitter::Feed(std::string_view bytes, const OnItem& on_item) {
  std::size_t begin = 0;  // of what is being captured, in `bytes`
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char c = bytes[i];
    if (is_in_string_) {
      if (is_escaped_) {
        is_escaped_ = false;
      } else if (c == '\\') {
        is_escaped_ = true;
      } else if (c == '"') {
        is_in_string_ = false;
      } else if (depth_ == 1 && part_ == Part::kKey && key_.size() < kKeyBytesMax) {
        key_ += c;
      }
      continue;
    }
    const Capture before = capture_;
    LOCKSTEP_RETURN_IF_ERROR(OnOutsideString(c));
    if (before == Capture::kNone && capture_ != Capture::kNone) {
      begin = i;
    } else if (before != Capture::kNone && capture_ == Capture::kNone) {
      const std::string_view tail = bytes.substr(begin, i + 1 - begin);
      if (before == Capture::kItem && captured_.empty()) {
        on_item(tail);  // whole in these bytes: not copied
        continue;
      }
      LOCKSTEP_RETURN_IF_ERROR(AppendCapture(before, tail));
      if (before == Capture::kItem) {
        on_item(captured_);
      } else {
        metadata_ = captured_;
      }
      captured_.clear();
    }
  }
  return capture_ == Capture::kNone ? OkStatus() : AppendCapture(capture_, bytes.substr(begin));
}

Status ListSplitter::OnOutsideString(char c) {
  switch (c) {
    case '"':
      is_in_string_ = true;
      if (depth_ == 1 && part_ == Part::kKey) {
        key_.clear();
      }
      return depth_ == 0 || (depth_ == 2 && part_ == Part::kItems) ? NoList("a text") : OkStatus();
    case '{':
    case '[':
      return Open(c);
    case '}':
    case ']':
      if (depth_ == 0) {
        return NoList("a closing bracket without an opening one");
      }
      Close();
      return OkStatus();
    case ':':
      if (depth_ == 1) {
        part_ = key_ == "items"      ? Part::kItems
                : key_ == "metadata" ? Part::kMetadata
                                     : Part::kOther;
      }
      return OkStatus();
    case ',':
      if (depth_ == 1) {
        part_ = Part::kKey;
      }
      return OkStatus();
    default:
      break;
  }
  if (IsSpace(c)) {
    return OkStatus();
  }
  if (depth_ == 0 || (depth_ == 2 && part_ == Part::kItems)) {
    return NoList(std::string("'") + c + "' found, expected an object");
  }
  if (depth_ == 1 && part_ == Part::kItems && scalar_.size() <= kNull.size()) {
    scalar_ += c;
  }
  return OkStatus();
}

Status ListSplitter::Open(char c) {
  const bool is_object = c == '{';
  if (depth_ == 0 && (!is_object || is_done_)) {
    return NoList(is_done_ ? "more text after its end" : "it begins with a bracket");
  }
  if (depth_ == 1 && part_ == Part::kItems) {
    if (is_object || has_items_) {
      return NoList(is_object ? "items are an object" : "items appear twice");
    }
    has_items_ = true;
  } else if (depth_ == 1 && part_ == Part::kMetadata && is_object) {
    capture_ = Capture::kMetadata;
  } else if (depth_ == 2 && part_ == Part::kItems) {
    if (!is_object) {
      return NoList("an item is a list");
    }
    capture_ = Capture::kItem;
  }
  ++depth_;
  return OkStatus();
}

void ListSplitter::Close() {
  --depth_;
  const bool ends_item = capture_ == Capture::kItem && depth_ == 2;
  const bool ends_metadata = capture_ == Capture::kMetadata && depth_ == 1;
  if (ends_item || ends_metadata) {
    capture_ = Capture::kNone;
  }
  is_done_ = depth_ == 0;
}

Status ListSplitter::AppendCapture(Capture kind, std::string_view text) {
  const std::size_t bytes_max = kind == Capture::kMetadata ? kMetadataBytesMax : kObjectBytesMax;
  if (captured_.size() + text.size() > bytes_max) {
    return Error(ErrorCode::kResourceExhausted,
                 "an object of more than " + std::to_string(bytes_max) + " bytes in a list");
  }
  captured_ += text;
  return OkStatus();
}

Result<ListHead> ListSplitter::Finish() const {
  if (!is_done_) {
    return NoList("it ends before it is complete");
  }
  if (!has_items_ && scalar_ != kNull) {
    return NoList("no items");
  }
  const Result<Json> json = ParseJson(metadata_);
  if (!json.ok()) {
    return NoList("metadata: " + json.error().message());
  }
  std::vector<Error> errors;
  ObjectReader reader(*json, "metadata", &errors);
  ListHead head{reader.String("resourceVersion").value_or(""),
                reader.String("continue").value_or("")};
  if (!errors.empty()) {
    return NoList(errors.front().ToString());
  }
  return head;
}

Status LineFramer::Feed(std::string_view bytes, const OnLine& on_line) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, end);
    if (partial_.size() + piece.size() > kObjectBytesMax) {
      return Error(ErrorCode::kResourceExhausted,
                   "a watch event of more than " + std::to_string(kObjectBytesMax) + " bytes");
    }
    if (end == std::string_view::npos) {
      partial_ += piece;
      return OkStatus();
    }
    bytes.remove_prefix(end + 1);
    std::string joined = std::exchange(partial_, std::string());
    std::string_view line = piece;
    if (!joined.empty()) {
      joined += piece;
      line = joined;
    }
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    if (!line.empty() && !on_line(line)) {
      return OkStatus();
    }
  }
  return OkStatus();
}

}  // namespace lockstep::control::kube
