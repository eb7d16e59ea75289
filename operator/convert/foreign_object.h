#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "operator/convert/conversion.h"

namespace lockstep::control {

// The member `key`; null where it is not there, or `object` is none.
Json MemberOf(const Json& object, const std::string& key);

// A text, or what stands in the manifest for a number or a boolean.
std::string TextOf(const Json& value);

// One object of a foreign manifest, read field by field. What nobody took is noted at the end, so
// that nothing is lost in silence. `value` and `conversion` outlive it.
class ForeignObject {
 public:
  // Null: an empty object. An error is recorded where `value` is something else.
  ForeignObject(const Json* value, std::string path, Conversion* conversion);

  // The value; null when absent or null. It counts as read.
  const Json* Take(std::string_view key);
  // An object below this one, which may be absent.
  ForeignObject TakeObject(std::string_view key);
  // Those of a list; none when it is absent, or of another type, which is an error.
  std::vector<ForeignObject> TakeObjects(std::string_view key);
  // Empty when absent, or of another type, which is an error.
  std::optional<std::string> TakeText(std::string_view key);
  std::optional<int64_t> TakeCount(std::string_view key);
  // The words of a list of strings.
  std::vector<std::string> TakeWords(std::string_view key);

  // The field is read, and a note says what became of it, if it is there.
  void Drop(std::string_view key, std::string text);

  // Hands the field on under the same name, or another one.
  void Copy(std::string_view key, Json* to);
  void CopyAs(std::string_view key, std::string_view other, Json* to);

  // `of_job` is made of the field, if it is there.
  void NoteOrigin(std::string_view key, std::string of_job);

  void Note(std::string_view key, std::string text);
  void Fail(std::string_view key, std::string text);

  // Notes what nobody took.
  void Finish();

  // Whether it is there at all.
  explicit operator bool() const { return object_ != nullptr; }

  // The members that nobody took yet, in their order.
  std::vector<std::string> Rest() const;

  std::string PathOf(std::string_view key) const;

  Conversion* conversion() const { return conversion_; }

 private:
  const Json* object_ = nullptr;  // null: absent, or no object
  std::string path_;
  Conversion* conversion_;
  std::set<std::string, std::less<>> taken_;
};

}  // namespace lockstep::control
