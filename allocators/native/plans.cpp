#include "plans.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

#include "block.h"
#include "options.h"

namespace cuplug {

namespace {

constexpr int64_t VERSION = 2;
constexpr uint64_t MOST_HEIGHT = uint64_t(1) << 46;
constexpr int MOST_NESTED = 64;

struct Damaged {
  const char *why;
};

/* Reads JSON of the kind that plans are written in: objects, arrays, whole numbers and plain strings. */
class Reader {
 public:
  explicit Reader(const std::string &text) : at_(text.c_str()), end_(at_ + text.size()) {}

  /* Call `work` with each key of an object; it reads the value. */
  template <class Work>
  void object(Work work) {
    expect('{');
    if (next_is('}')) return;
    do {
      std::string key = string();
      expect(':');
      work(key);
    } while (next_is(','));
    expect('}');
  }
  /* Call `work` for each element of an array; it reads the element. */
  template <class Work>
  void array(Work work) {
    expect('[');
    if (next_is(']')) return;
    do work();
    while (next_is(','));
    expect(']');
  }
  std::string string() {
    expect('"');
    const char *start = at_;
    while (at_ != end_ && *at_ != '"' && *at_ != '\\') ++at_;
    if (at_ == end_ || *at_ == '\\') throw Damaged{"a text is not as it is written"};
    return std::string(start, at_++);
  }
  int64_t number() {
    const bool negative = next_is('-');
    const uint64_t value = digits();
    if (value > uint64_t(INT64_MAX)) throw Damaged{"a number is out of its range"};
    return negative ? -int64_t(value) : int64_t(value);
  }
  /* As `number`, for numbers of streams, which have 64 bits. */
  uint64_t identity() {
    skip_blanks();
    return digits();
  }
  /* Pass over a value of any kind. */
  void pass() {
    skip_blanks();
    if (at_ == end_) throw Damaged{"it is cut off"};
    if (++nested_ > MOST_NESTED) throw Damaged{"it is nested too deeply"};
    if (*at_ == '{')
      object([this](const std::string &) { pass(); });
    else if (*at_ == '[')
      array([this] { pass(); });
    else if (*at_ == '"')
      string();
    else
      number();
    --nested_;
  }
  void finish() {
    skip_blanks();
    if (at_ != end_) throw Damaged{"there is more behind its end"};
  }

 private:
  uint64_t digits() {
    const char *start = at_;
    uint64_t value = 0;
    for (; at_ != end_ && *at_ >= '0' && *at_ <= '9'; ++at_) {
      const uint64_t digit = uint64_t(*at_ - '0');
      if (value > (UINT64_MAX - digit) / 10) throw Damaged{"a number is out of its range"};
      value = value * 10 + digit;
    }
    const bool goes_on = at_ != end_ && (*at_ == '.' || *at_ == 'e' || *at_ == 'E');
    if (at_ == start || goes_on) throw Damaged{"a number is missing"};
    return value;
  }
  void skip_blanks() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
  }
  bool next_is(char wanted) {
    skip_blanks();
    if (at_ == end_ || *at_ != wanted) return false;
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (!next_is(wanted)) throw Damaged{"it is cut off, or altered"};
  }

  const char *at_, *end_;
  int nested_ = 0;
};

void check(const Cycle &cycle, int64_t begin, int64_t height) {
  if (begin < 0 || uint64_t(begin) >= cycle.sizes.size() || height < 0) throw Damaged{"a number is out of its range"};
  uint64_t end = 0;
  for (size_t at = 0; at < cycle.sizes.size(); ++at) {
    const int64_t size = int64_t(cycle.sizes[at]), offset = cycle.offsets[at];
    if (size <= 0 || offset < UNPLANNED) throw Damaged{"a number is out of its range"};
    if (uint64_t(size) >= MOST_HEIGHT || offset >= int64_t(MOST_HEIGHT)) throw Damaged{"its height is wrong"};
    if (uint64_t(size) % ALIGNMENT != 0 || (offset != UNPLANNED && uint64_t(offset) % ALIGNMENT != 0))
      throw Damaged{"a number is no multiple of 512"};
    if (offset != UNPLANNED) end = std::max(end, uint64_t(offset + size));
  }
  if (end > uint64_t(height) || uint64_t(height) >= MOST_HEIGHT) throw Damaged{"its height is wrong"};
}

Cycle read_cycle(Reader &reader) {
  Cycle cycle;
  int64_t begin = -1, height = -1;
  reader.object([&](const std::string &key) {
    if (key == "device") {
      cycle.device = reader.identity();
    } else if (key == "stream") {
      cycle.stream = reader.identity();
    } else if (key == "begin") {
      begin = reader.number();
    } else if (key == "height") {
      height = reader.number();
    } else if (key == "requests") {
      reader.array([&] {
        int64_t pair[2];
        int count = 0;
        reader.array([&] {
          if (count == 2) throw Damaged{"a request has more than two numbers"};
          pair[count++] = reader.number();
        });
        if (count != 2) throw Damaged{"a number is missing"};
        cycle.sizes.push_back(uint64_t(pair[0]));
        cycle.offsets.push_back(pair[1]);
      });
    } else {
      reader.pass();
    }
  });
  check(cycle, begin, height);
  cycle.begin = size_t(begin);
  cycle.height = uint64_t(height);
  return cycle;
}

}  // namespace

std::vector<Cycle> read_plan(const char *path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream held;
  held << file.rdbuf();
  if (!file) throw Invalid{std::string("cannot read the plan ") + path};
  const std::string text = held.str();
  std::string format;
  int64_t version = 0;
  std::vector<Cycle> cycles;
  try {
    Reader reader(text);
    reader.object([&](const std::string &key) {
      if (key == "format") {
        format = reader.string();
      } else if (key == "version") {
        version = reader.number();
      } else if (key == "cycles" && version <= VERSION) {
        reader.array([&] { cycles.push_back(read_cycle(reader)); });
      } else {
        reader.pass();
      }
    });
    reader.finish();
  } catch (const Damaged &damaged) {
    throw Invalid{std::string(path) + " is a damaged plan (" + damaged.why + "); make it anew"};
  }
  if (format != "cuplug plan") throw Invalid{std::string(path) + " is no plan; cuplug-trace plan makes one from a trace"};
  if (version != 1 && version != VERSION)
    throw Invalid{std::string(path) + " is a plan of another version than this cuplug reads; make it anew"};
  return cycles;
}

}  // namespace cuplug
