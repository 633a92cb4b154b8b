#include "options.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "caching.h"
#include "expandable.h"
#include "planned.h"
#include "plans.h"
#include "direct_and_bump.h"

namespace cuplug {

namespace {

void check(bool fine, const cuplug_option &option, const char *range) {
  if (!fine) throw Invalid{std::string(option.name) + " is " + option.value + "; it must be " + range};
}

bool is(const cuplug_option &option, const char *name) { return std::strcmp(option.name, name) == 0; }

int64_t whole_number(const cuplug_option &option) {
  char *end = nullptr;
  errno = 0;
  long long value = std::strtoll(option.value, &end, 10);
  check(errno == 0 && end != option.value && *end == 0, option, "a whole number");
  return value;
}

double number(const cuplug_option &option) {
  char *end = nullptr;
  double value = std::strtod(option.value, &end);
  check(end != option.value && *end == 0, option, "a number");
  return value;
}

uint64_t at_least(int64_t least, const cuplug_option &option, const char *range) {
  int64_t value = whole_number(option);
  check(value >= least, option, range);
  return uint64_t(value);
}

uint64_t limit_of(const cuplug_option &option) { return at_least(1, option, "at least one byte"); }

bool follows_torch(const cuplug_option &option) {
  const bool follows = std::strcmp(option.value, "torch") == 0;
  check(follows || std::strcmp(option.value, "cuplug") == 0, option, "cuplug or torch");
  return follows;
}

uint64_t power_of_two_or_none(const cuplug_option &option) {
  int64_t value = whole_number(option);
  check(value >= 0 && (value & (value - 1)) == 0, option, "0 or a power of two");
  return uint64_t(value);
}

CachingOptions caching_options(const cuplug_option *options, size_t count, const cuplug_upstream &table) {
  CachingOptions parsed;
  for (const cuplug_option *option = options; option != options + count; ++option) {
    if (is(*option, "preset")) {
      parsed.follows_torch = follows_torch(*option);
    } else if (is(*option, "memory_limit")) {
      parsed.memory_limit = std::min(parsed.memory_limit, limit_of(*option));
    } else if (is(*option, "memory_fraction")) {
      double fraction = number(*option);
      check(0 < fraction && fraction <= 1, *option, "above 0 and at most 1");
      uint64_t free = 0, total = 0;
      if (table.memory_info(table.context, &free, &total) != CUPLUG_OK) throw Failed();
      parsed.memory_limit = std::min(parsed.memory_limit, uint64_t(double(total) * fraction));
    } else if (is(*option, "garbage_collection_threshold")) {
      parsed.garbage_collection_threshold = number(*option);
      check(0 <= parsed.garbage_collection_threshold && parsed.garbage_collection_threshold < 1, *option,
            "at least 0 and below 1");
    } else if (is(*option, "max_split_size")) {
      parsed.max_split_size = at_least(int64_t(20 * MIB) + 1, *option, "above 20 MiB");
    } else if (is(*option, "roundup_power2_divisions")) {
      parsed.roundup_power2_divisions = power_of_two_or_none(*option);
    } else {
      throw Invalid{std::string("caching has no option ") + option->name};
    }
  }
  return parsed;
}

/* Whether `option` is one that `expandable` has, and then its value goes into `parsed`. */
bool is_for_expandable(const cuplug_option &option, ExpandableOptions *parsed) {
  if (is(option, "slack"))
    parsed->slack = at_least(0, option, "zero or more bytes");
  else if (is(option, "aliases"))
    parsed->aliases = at_least(0, option, "zero or more addresses");
  else if (is(option, "host"))
    parsed->host = at_least(0, option, "zero or more bytes");
  else if (is(option, "memory_limit"))
    parsed->memory_limit = limit_of(option);
  else
    return false;
  return true;
}

ExpandableOptions expandable_options(const cuplug_option *options, size_t count) {
  ExpandableOptions parsed;
  for (const cuplug_option *option = options; option != options + count; ++option) {
    if (is(*option, "preset"))
      parsed.follows_torch = follows_torch(*option);
    else if (is(*option, "roundup_power2_divisions"))
      parsed.roundup_power2_divisions = power_of_two_or_none(*option);
    else if (!is_for_expandable(*option, &parsed))
      throw Invalid{std::string("expandable has no option ") + option->name};
  }
  return parsed;
}

PlannedOptions planned_options(const cuplug_option *options, size_t count) {
  PlannedOptions parsed;
  uint64_t device = 0;
  for (const cuplug_option *option = options; option != options + count; ++option) {
    if (is(*option, "plan")) {
      parsed.cycles = read_plan(option->value);
    } else if (is(*option, "device")) {
      device = at_least(0, *option, "zero or more");
    } else if (is(*option, "learn")) {
      int64_t value = whole_number(*option);
      check(value == 0 || value >= 3, *option, "0, for never, or at least 3 times");
      parsed.repetitions = size_t(value);
    } else if (is(*option, "at_once")) {
      parsed.at_once = whole_number(*option) != 0;
    } else if (!is_for_expandable(*option, &parsed.expandable)) {
      throw Invalid{std::string("planned has no option ") + option->name};
    }
  }
  drop_if(parsed.cycles, [device](const Cycle &cycle) { return cycle.device != device; });
  return parsed;
}

/* Whether there is no virtual memory, or none of the host's where that is asked for. */
bool lacks_pages(const cuplug_upstream &table, const ExpandableOptions &options) {
  return table.page_granularity == 0 || (options.host != 0 && table.create_host_page == nullptr);
}

/* The strategies that the core has for replays alone; null for another name. */
Allocator *make_replayed(const char *strategy, const cuplug_option *options, size_t count, const cuplug_upstream &table) {
  const bool direct = std::strcmp(strategy, "direct") == 0;
  if (!direct && std::strcmp(strategy, "bump") != 0) return nullptr;
  cuplug_null_counts counts;
  if (cuplug_null_upstream_counts(&table, &counts) != CUPLUG_OK)
    throw Invalid{std::string(strategy) + " is in the core for replays alone, over its null upstream"};
  uint64_t memory_limit = NO_LIMIT, chunk_size = 64 * MIB;
  for (const cuplug_option *option = options; option != options + count; ++option) {
    if (is(*option, "memory_limit"))
      memory_limit = limit_of(*option);
    else if (!direct && is(*option, "chunk_size"))
      chunk_size = limit_of(*option);
    else
      throw Invalid{std::string(strategy) + " has no option " + option->name};
  }
  if (direct) return new ReplayedDirect(table, memory_limit);
  return new ReplayedBump(table, memory_limit, chunk_size);
}

}  // namespace

Allocator *make_allocator(const char *strategy, const cuplug_option *options, size_t count,
                          const cuplug_upstream &table) {
  if (std::strcmp(strategy, "caching") == 0) return new CachingAllocator(table, caching_options(options, count, table));
  if (Allocator *replayed = make_replayed(strategy, options, count, table)) return replayed;
  if (std::strcmp(strategy, "planned") == 0) {
    PlannedOptions parsed = planned_options(options, count);
    if (lacks_pages(table, parsed.expandable)) throw Stopped{CUPLUG_NOT_SUPPORTED};
    return new PlannedAllocator(table, std::move(parsed));
  }
  if (std::strcmp(strategy, "expandable") != 0) throw Invalid{std::string("no strategy is called ") + strategy};
  ExpandableOptions parsed = expandable_options(options, count);
  if (lacks_pages(table, parsed)) throw Stopped{CUPLUG_NOT_SUPPORTED};
  return new ExpandableAllocator(table, parsed);
}

}  // namespace cuplug
