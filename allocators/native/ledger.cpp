#include "ledger.h"

#include <algorithm>

namespace cuplug {

void Figures::keep_active_peaks() {
  active_peak = std::max(active_peak, allocation.current + waiting);
  active_bytes_peak = std::max(active_bytes_peak, allocated_bytes.current + waiting_bytes);
}

void Figures::reset_peaks() {
  for (Figure *figure : {&allocation, &allocated_bytes, &requested_bytes, &inactive_split, &inactive_split_bytes,
                         &segment, &reserved_bytes, &host_bytes})
    figure->reset_peak();
  active_peak = active_bytes_peak = 0;
  keep_active_peaks();
}

void Figures::reset_accumulated() {
  for (Figure *figure : {&allocation, &allocated_bytes, &requested_bytes, &inactive_split, &inactive_split_bytes,
                         &segment, &reserved_bytes, &host_bytes})
    figure->reset_accumulated();
  active_start = allocation.current + waiting;
  active_bytes_start = allocated_bytes.current + waiting_bytes;
}

cuplug_counters Figures::copy() const {
  /* What becomes active is what is allocated: the sums of increases are the same. */
  Figure active{allocation.current + waiting, std::max(active_peak, allocation.peak), allocation.allocated,
                active_start};
  Figure active_bytes{allocated_bytes.current + waiting_bytes, std::max(active_bytes_peak, allocated_bytes.peak),
                      allocated_bytes.allocated, active_bytes_start};
  return {allocation.copy(),     allocated_bytes.copy(), requested_bytes.copy(),
          active.copy(),         active_bytes.copy(),    segment.copy(),
          reserved_bytes.copy(), inactive_split.copy(),  inactive_split_bytes.copy(),
          host_bytes.copy()};
}

void Ledger::reset_peaks() {
  most_allocated_ = most_allocated();
  for (Figures *figures : {&small_, &all_, &large_}) figures->reset_peaks();
}

void Ledger::reset_accumulated() {
  for (Figures *figures : {&small_, &all_, &large_}) figures->reset_accumulated();
  num_alloc_retries = num_ooms = num_sync_all_streams = num_device_alloc = num_device_free = 0;
}

void Ledger::copy(cuplug_statistics *statistics) const {
  *statistics = {all_.copy(), small_.copy(),        large_.copy(),    num_alloc_retries,
                 num_ooms,    num_sync_all_streams, num_device_alloc, num_device_free};
}

}  // namespace cuplug
