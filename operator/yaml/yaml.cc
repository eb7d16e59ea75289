#include "operator/yaml/yaml.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <sstream>
#include <utility>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

namespace lockstep::control {
namespace {

// What a node weighs beside its text: about the size of a Json with its share of the container.
constexpr std::size_t kNodeBytes = 64;

constexpr std::string_view kCoreTagPrefix = "tag:yaml.org,2002:";

TextPosition PositionOf(const YAML::Mark& mark) {
  return {mark.line + 1, mark.column + 1};
}

// Builds a document's Json from the parser's events. Ends a hopeless document by throwing
// YAML::ParserException through the parser; ReadYaml catches it.
class JsonBuilder final : public YAML::EventHandler {
 public:
  explicit JsonBuilder(std::vector<TextProblem>* problems) : problems_(problems) {}

  YamlDocument Take() { return std::move(document_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    document_ = YamlDocument();
    document_.start = PositionOf(mark);
    anchors_.clear();
  }

  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    RefuseAsKey(mark, "nothing");
    Add(nullptr, kNodeBytes, mark, anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    RefuseAsKey(mark, "an alias");
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      throw YAML::ParserException(mark, "an alias refers to a node that contains the alias");
    }
    Spend(found->second.bytes, mark);
    Add(found->second.value, 0, mark, YAML::NullAnchor);
  }

  void OnScalar(const YAML::Mark& mark,
                const std::string& tag,
                YAML::anchor_t anchor,
                const std::string& value) override {
    if (ExpectsKey()) {
      TakeKey(mark, value, /*is_plain=*/tag == "?");
      return;
    }
    Add(Resolve(mark, tag, value), kNodeBytes + value.size(), mark, anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark,
                       const std::string& tag,
                       YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    RefuseAsKey(mark, "a list");
    Open(Json::array(), mark, tag, anchor);
  }

  void OnSequenceEnd() override { Close(); }

  void OnMapStart(const YAML::Mark& mark,
                  const std::string& tag,
                  YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    RefuseAsKey(mark, "an object");
    Open(Json::object(), mark, tag, anchor);
  }

  void OnMapEnd() override {
    Frame& frame = stack_.back();
    for (const Json& merged : frame.merges) {
      for (const auto& [key, value] : merged.items()) {
        if (frame.key_lines.emplace(key, frame.merge_mark.line + 1).second) {
          Append(frame.value, key, value);
          SetPosition(Join(frame.path, key), frame.merge_mark);
        }
      }
    }
    Close();
  }

 private:
  // A list or object whose end has not been seen.
  struct Frame {
    Json value;
    std::string path;
    YAML::Mark mark;
    YAML::anchor_t anchor = YAML::NullAnchor;
    std::size_t bytes_before = 0;  // spent before it began
    bool has_key = false;          // objects: a key waits for its value
    bool is_duplicate = false;     // that key was there before: its value is dropped
    bool is_merge = false;         // that key is <<
    std::string key;
    YAML::Mark key_mark;
    std::map<std::string, int, std::less<>> key_lines;
    std::vector<Json> merges;  // objects under <<, the first wins
    YAML::Mark merge_mark;
  };

  struct Anchored {
    Json value;
    std::size_t bytes = 0;
  };

  static std::string Join(const std::string& path, const std::string& key) {
    return path.empty() ? key : path + "." + key;
  }

  // Adds a key that is not in the object, without the search that makes Json's own insertion
  // quadratic in the number of keys.
  static void Append(Json& object, const std::string& key, Json value) {
    object.get_ref<Json::object_t&>().emplace_back(key, std::move(value));
  }

  bool ExpectsKey() const {
    return !stack_.empty() && stack_.back().value.is_object() && !stack_.back().has_key;
  }

  void RefuseAsKey(const YAML::Mark& mark, std::string_view found) const {
    if (ExpectsKey()) {
      throw YAML::ParserException(mark, std::string(found) + " found, expected a key");
    }
  }

  void Spend(std::size_t bytes, const YAML::Mark& mark) {
    bytes_ += bytes;
    if (bytes_ > kYamlExpandedBytesMax) {
      throw YAML::ParserException(mark,
                                  "larger than " + std::to_string(kYamlExpandedBytesMax) +
                                      " bytes after aliases are expanded");
    }
  }

  // Remembers where a field stands. Paths weigh too: a long key above many fields is in all of
  // them.
  void SetPosition(const std::string& path, const YAML::Mark& mark) {
    Spend(path.size(), mark);
    document_.positions.Set(path, PositionOf(mark));
  }

  // Records a mistake that does not end the reading.
  void Report(const YAML::Mark& mark, std::string field, std::string message) {
    Spend(field.size() + message.size(), mark);
    problems_->push_back({PositionOf(mark), std::move(field), std::move(message)});
  }

  // kubectl's objects have texts as keys: "true" of yes, "8" of 010.
  static std::string KeyOf(const std::string& written) {
    const Json resolved = ResolvePlainScalar(written);
    const bool is_finite = resolved.is_number() && std::isfinite(resolved.get<double>());
    return resolved.is_boolean() || is_finite ? DumpJson(resolved) : written;
  }

  void TakeKey(const YAML::Mark& mark, const std::string& written, bool is_plain) {
    const std::string key = is_plain ? KeyOf(written) : written;
    Spend(kNodeBytes + key.size(), mark);
    Frame& frame = stack_.back();
    frame.has_key = true;
    frame.key = key;
    frame.key_mark = mark;
    frame.is_merge = is_plain && key == "<<";
    const auto [first, is_new] = frame.key_lines.emplace(key, mark.line + 1);
    frame.is_duplicate = !is_new;
    if (frame.is_duplicate) {
      Report(mark,
             Join(frame.path, key),
             "appears twice, first on line " + std::to_string(first->second));
    }
  }

  Json Resolve(const YAML::Mark& mark, const std::string& tag, const std::string& value) {
    const bool is_quoted = tag == "!";
    std::string_view kind = tag;
    if (kind.starts_with(kCoreTagPrefix)) {
      kind.remove_prefix(kCoreTagPrefix.size());
    }
    if (is_quoted || kind == "str") {
      return value;
    }
    if (kind != "?" && kind != "int" && kind != "float" && kind != "bool" && kind != "null") {
      Report(mark, ChildPath(), "tag " + tag + " is not supported");
      return value;
    }
    Json resolved = ResolvePlainScalar(value);
    if (resolved.is_number_float() && !std::isfinite(resolved.get<double>())) {
      Report(mark, ChildPath(), value + " found, expected a finite number");
      return nullptr;
    }
    return resolved;
  }

  // Where the next value goes.
  std::string ChildPath() const {
    if (stack_.empty()) {
      return "";
    }
    const Frame& frame = stack_.back();
    return frame.value.is_array() ? frame.path + "[" + std::to_string(frame.value.size()) + "]"
                                  : Join(frame.path, frame.key);
  }

  void Open(Json empty, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (static_cast<int>(stack_.size()) >= kJsonDepthMax) {
      throw YAML::ParserException(
          mark, "nested deeper than " + std::to_string(kJsonDepthMax) + " levels");
    }
    const bool is_known_tag = tag.empty() || tag == "?" || tag == "!" ||
                              tag.compare(0, kCoreTagPrefix.size(), kCoreTagPrefix) == 0;
    if (!is_known_tag) {
      Report(mark, ChildPath(), "tag " + tag + " is not supported");
    }
    Frame frame;
    frame.value = std::move(empty);
    frame.path = ChildPath();
    frame.mark = mark;
    frame.anchor = anchor;
    frame.bytes_before = bytes_;
    Spend(kNodeBytes, mark);
    stack_.push_back(std::move(frame));
  }

  void Close() {
    Frame frame = std::move(stack_.back());
    stack_.pop_back();
    Attach(std::move(frame.value), frame.mark, frame.anchor, bytes_ - frame.bytes_before);
  }

  void Add(Json value, std::size_t bytes, const YAML::Mark& mark, YAML::anchor_t anchor) {
    Spend(bytes, mark);
    Attach(std::move(value), mark, anchor, bytes);
  }

  // Puts a complete value where it belongs and remembers it if it is anchored.
  void Attach(Json value, const YAML::Mark& mark, YAML::anchor_t anchor, std::size_t bytes) {
    if (anchor != YAML::NullAnchor) {
      Spend(bytes, mark);  // the copy that aliases will be made from
      anchors_[anchor] = {value, bytes};
    }
    if (stack_.empty()) {
      document_.value = std::move(value);
      return;
    }
    Frame& frame = stack_.back();
    if (frame.value.is_array()) {
      SetPosition(ChildPath(), mark);
      frame.value.push_back(std::move(value));
      return;
    }
    frame.has_key = false;
    if (frame.is_duplicate) {
      return;
    }
    if (frame.is_merge) {
      Merge(frame, std::move(value));
      return;
    }
    SetPosition(ChildPath(), frame.key_mark);
    Append(frame.value, frame.key, std::move(value));
  }

  // Takes the value under <<: an object, or a list of them of which the first wins.
  void Merge(Frame& frame, Json value) {
    frame.merge_mark = frame.key_mark;
    Json sources = value.is_array() ? std::move(value) : Json::array({std::move(value)});
    for (Json& source : sources) {
      if (!source.is_object()) {
        Report(frame.key_mark,
               Join(frame.path, "<<"),
               DescribeJson(source) + " found, expected an object to merge");
        continue;
      }
      frame.merges.push_back(std::move(source));
    }
  }

  std::vector<TextProblem>* problems_;
  YamlDocument document_;
  std::vector<Frame> stack_;
  std::map<YAML::anchor_t, Anchored> anchors_;
  std::size_t bytes_ = 0;
};

// The length of the UTF-8 sequence that starts `text`; 0 if it is malformed, overlong, a surrogate
// or beyond U+10FFFF. Source: Unicode 15, table 3-7.
std::size_t Utf8Length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto continues = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned first = byte(0);
  if (first < 0x80) {
    return 1;
  }
  if (first >= 0xC2 && first <= 0xDF) {
    return continues(1) ? 2 : 0;
  }
  if (first >= 0xE0 && first <= 0xEF) {
    const bool is_overlong = first == 0xE0 && byte(1) < 0xA0;
    const bool is_surrogate = first == 0xED && byte(1) > 0x9F;
    return continues(1) && continues(2) && !is_overlong && !is_surrogate ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool is_overlong = first == 0xF0 && byte(1) < 0x90;
    const bool is_beyond = first == 0xF4 && byte(1) > 0x8F;
    return continues(1) && continues(2) && continues(3) && !is_overlong && !is_beyond ? 4 : 0;
  }
  return 0;
}

// The first character that a manifest must not hold. yaml-cpp would end the text silently at some
// of them and replace others.
std::optional<TextProblem> FindBadCharacter(std::string_view text) {
  TextPosition at{1, 1};
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = Utf8Length(text.substr(i));
    if (length == 0) {
      return TextProblem{at, "", "bytes that are not UTF-8"};
    }
    const char c = text[i];
    if (length == 1 && ((c >= 0 && c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F)) {
      return TextProblem{at, "", "control character number " + std::to_string(int{c})};
    }
    i += length;
    at = c == '\n' ? TextPosition{at.line + 1, 1} : TextPosition{at.line, at.column + 1};
  }
  return std::nullopt;
}

// Where the innermost {, [ or quote stands that nothing closes; null where all are closed. Those of
// comments and within words do not count. Of a block of text ("|") they do: who asks knows already
// that the file is wrong.
std::optional<TextPosition> FindUnclosed(std::string_view text) {
  std::vector<TextPosition> open;
  std::optional<TextPosition> quote;
  char quoted_by = 0;
  TextPosition at{1, 1};
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const char before = i == 0 ? '\n' : text[i - 1];
    const bool begins_word = std::string_view(" \t\n\r[{,").find(before) != std::string_view::npos;
    if (quote.has_value()) {
      if (c == '\\' && quoted_by == '"' && i + 1 < text.size() && text[i + 1] != '\n') {
        ++i;
        ++at.column;
      } else if (c == quoted_by) {
        quote.reset();
      }
    } else if (c == '#' && begins_word) {
      i = std::min(text.find('\n', i), text.size()) - 1;  // comes next
    } else if (begins_word && (c == '"' || c == '\'')) {
      quote = at;
      quoted_by = c;
    } else if ((c == '{' || c == '[') && (begins_word || !open.empty())) {
      open.push_back(at);
    } else if ((c == '}' || c == ']') && !open.empty()) {
      open.pop_back();
    }
    at = c == '\n' ? TextPosition{at.line + 1, 1} : TextPosition{at.line, at.column + 1};
  }
  return quote.has_value() ? quote
         : open.empty()    ? std::nullopt
                           : std::optional<TextPosition>(open.back());
}

// How yaml-cpp, and who refuses an object as a key, speak of a text that ends too early.
constexpr std::string_view kMissedAtEnd[] = {
    "end of map flow not found", "end of sequence flow not found", "EOF", "expected a key"};

// yaml-cpp's words, or better ones for the mistake everybody makes once.
std::string ExplainSyntaxError(std::string_view text, const YAML::ParserException& error) {
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int i = 0; i <= error.mark.line; ++i) {
    std::getline(lines, line);
  }
  const std::size_t indent_end = std::min(line.find_first_not_of(" \t"), line.size());
  if (line.substr(0, indent_end).find('\t') != std::string::npos) {
    return "not valid YAML: a tab in the indentation, expected spaces";
  }
  // What yaml-cpp misses at the end it tells of where the object, list or text began, or as a key.
  const bool is_at_end = std::any_of(
      std::begin(kMissedAtEnd), std::end(kMissedAtEnd), [&error](std::string_view words) {
        return error.msg.find(words) != std::string::npos;
      });
  if (const auto open = FindUnclosed(text); open.has_value() && is_at_end) {
    const auto breaks = std::count(text.begin(), text.end(), '\n');
    const auto last = breaks + (text.ends_with('\n') ? 0 : 1);
    return "not valid YAML: the file ends on line " + std::to_string(last) +
           ", but the part that begins on line " + std::to_string(open->line) + ", column " +
           std::to_string(open->column) + " is not closed";
  }
  return "not valid YAML: " + error.msg;
}

bool IsList(const Json& value) {
  return value.is_object() && value.contains("kind") && value["kind"].is_string() &&
         value["kind"].get_ref<const std::string&>().ends_with("List") && value.contains("items") &&
         value["items"].is_array();
}

}  // namespace

TextPosition FieldPositions::Find(std::string_view path) const {
  while (!path.empty()) {
    const auto found = positions_.find(path);
    if (found != positions_.end()) {
      return found->second;
    }
    const std::size_t cut = path.find_last_of(".[");
    path = path.substr(0, cut == std::string_view::npos ? 0 : cut);
  }
  return {};
}

FieldPositions FieldPositions::Below(const std::string& path) const {
  FieldPositions below;
  const std::string prefix = path + ".";
  for (auto field = positions_.lower_bound(prefix);
       field != positions_.end() && field->first.starts_with(prefix);
       ++field) {
    below.Set(field->first.substr(prefix.size()), field->second);
  }
  return below;
}

std::vector<YamlDocument> WithoutLists(std::vector<YamlDocument> documents) {
  std::vector<YamlDocument> result;
  for (YamlDocument& document : documents) {
    if (!IsList(document.value)) {
      result.push_back(std::move(document));
      continue;
    }
    Json& items = document.value["items"];
    std::vector<YamlDocument> inner;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const std::string item = "items[" + std::to_string(i) + "]";
      const TextPosition start = document.positions.Find(item);
      inner.push_back({std::move(items[i]),
                       start.line == 0 ? document.start : start,
                       document.positions.Below(item),
                       (document.item.empty() ? "" : document.item + ".") + item});
    }
    inner = WithoutLists(std::move(inner));  // which are nested as deeply as ReadYaml lets them
    std::move(inner.begin(), inner.end(), std::back_inserter(result));
  }
  return result;
}

YamlStream ReadYaml(std::string_view text) {
  YamlStream stream;
  if (std::optional<TextProblem> bad = FindBadCharacter(text)) {
    bad->message = "not valid YAML: " + bad->message;
    stream.problems.push_back(*std::move(bad));
    return stream;
  }
  try {
    std::istringstream input{std::string(text)};
    YAML::Parser parser(input);
    JsonBuilder builder(&stream.problems);
    while (parser.HandleNextDocument(builder)) {
      YamlDocument document = builder.Take();
      if (!document.value.is_null()) {
        stream.documents.push_back(std::move(document));
      }
    }
  } catch (const YAML::ParserException& error) {
    stream.problems.push_back({error.mark.is_null() ? TextPosition{} : PositionOf(error.mark),
                               "",
                               ExplainSyntaxError(text, error)});
  } catch (const std::exception& error) {
    stream.problems.push_back({{}, "", std::string("not valid YAML: ") + error.what()});
  }
  return stream;
}

}  // namespace lockstep::control
