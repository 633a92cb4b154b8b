/* What an allocator says of itself: events, statistics, the map of what it holds, and the blocks in use. */
#include "python_binding.h"

#include <unordered_map>
#include <vector>

namespace cuplug::python {

namespace {

PyObject *counters_of(const cuplug_counters &counters) {
  const cuplug_counter *each = &counters.allocation;
  constexpr Py_ssize_t COUNT = sizeof(cuplug_counters) / sizeof(cuplug_counter);
  PyObject *made = PyTuple_New(COUNT);
  for (Py_ssize_t i = 0; made != nullptr && i < COUNT; ++i) {
    PyObject *figures =
        Py_BuildValue("LLLL", static_cast<long long>(each[i].current), static_cast<long long>(each[i].peak),
                      static_cast<long long>(each[i].allocated), static_cast<long long>(each[i].freed));
    if (figures == nullptr) {
      Py_CLEAR(made);
    } else {
      PyTuple_SET_ITEM(made, i, figures);
    }
  }
  return made;
}

/* The Block of a handle in the list, new reference. An Owner's own handle moves into the Block that is made for it. */
PyObject *block_of(Handle *handle) {
  if (handle->in_owner) return Py_XNewRef(owners.block_of(handle));
  return Py_NewRef(reinterpret_cast<PyObject *>(reinterpret_cast<char *>(handle) - offsetof(Block, handle)));
}

/* A Block for what has none: it was dropped, or C allocated it. */
PyObject *block_for(Allocator *self, cuplug_block *block) {
  PyObject *made = new_block();
  if (made == nullptr) return nullptr;
  Handle *handle = &reinterpret_cast<Block *>(made)->handle;
  hold(handle, self, block, cuplug_block_requested(block), cuplug_block_stream(block));
  return made;
}

}  // namespace

/* Appends up to 256 of the oldest events to a deque, as tuples that an observer takes. Answers how many. */
PyObject *move_events(PyObject *object, PyObject *queue) {
  Allocator *self = as_allocator(object);
  constexpr size_t MOST = 256;
  cuplug_event events[MOST];
  const size_t count = self->core == nullptr ? 0 : cuplug_take_events(self->core, events, MOST);
  PyObject *list = PyList_New(static_cast<Py_ssize_t>(count));
  for (size_t i = 0; list != nullptr && i < count; ++i) {
    const cuplug_event &event = events[i];
    PyObject *one = Py_BuildValue("OKKKKKKK", names.event_kinds[event.kind], event.time_ns, event.thread, event.stream,
                                  event.address, event.nbytes, event.requested, event.context);
    if (one == nullptr) {
      Py_CLEAR(list);
    } else {
      PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), one);
    }
  }
  PyObject *extended = list == nullptr ? nullptr : PyObject_CallMethod(queue, "extend", "O", list);
  Py_XDECREF(list);
  if (extended == nullptr) return nullptr;
  Py_DECREF(extended);
  return PyLong_FromSize_t(count);
}

PyObject *read_statistics(PyObject *object, PyObject *) {
  cuplug_statistics counted;
  return operated(object, [&](cuplug_allocator *core) { return cuplug_get_statistics(core, &counted); }, [&] {
    return Py_BuildValue("NNNLLLLL", counters_of(counted.all), counters_of(counted.small), counters_of(counted.large),
                         static_cast<long long>(counted.num_alloc_retries), static_cast<long long>(counted.num_ooms),
                         static_cast<long long>(counted.num_sync_all_streams),
                         static_cast<long long>(counted.num_device_alloc),
                         static_cast<long long>(counted.num_device_free));
  });
}

/* (requests, requested_bytes, planned_requests, planned_bytes) of a strategy that follows a plan. */
PyObject *read_served(PyObject *object, PyObject *) {
  cuplug_served served;
  return operated(object, [&](cuplug_allocator *core) { return cuplug_get_served(core, &served); }, [&] {
    return Py_BuildValue("KKKK", static_cast<unsigned long long>(served.requests),
                         static_cast<unsigned long long>(served.requested_bytes),
                         static_cast<unsigned long long>(served.planned_requests),
                         static_cast<unsigned long long>(served.planned_bytes));
  });
}

/* A list of (address, nbytes, stream, is_small, is_expandable, [(address, nbytes, requested, state), ...]). */
PyObject *read_segments(PyObject *object, PyObject *) {
  cuplug_map *map = nullptr;
  return operated(object, [&](cuplug_allocator *core) { return cuplug_get_segments(core, &map); }, [&] {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != nullptr && i < map->segment_count; ++i) {
      const cuplug_segment &segment = map->segments[i];
      PyObject *pieces = PyList_New(0);
      for (size_t k = 0; pieces != nullptr && k < segment.piece_count; ++k) {
        const cuplug_piece &piece = map->pieces[segment.first_piece + k];
        append(pieces, Py_BuildValue("KKKi", piece.address, piece.nbytes, piece.requested, piece.state));
      }
      append(list, pieces == nullptr ? nullptr
                                     : Py_BuildValue("KKKiiN", segment.address, segment.nbytes, segment.stream,
                                                     segment.is_small, segment.is_expandable, pieces));
    }
    cuplug_map_free(map);
    return list;
  });
}

/* The blocks in the program's hands, in order of address. */
PyObject *live_blocks(PyObject *object, PyObject *) {
  Allocator *self = as_allocator(object);
  if (check_entry(self) < 0) return nullptr;
  Operation operation(self);
  std::vector<cuplug_block *> blocks;
  size_t count = 0;
  int answer;
  do {
    blocks.resize(count + 64);
    answer = cuplug_get_live_blocks(self->core, blocks.data(), blocks.size(), &count);
  } while (answer == CUPLUG_OK && count > blocks.size());
  PyObject *list = answer == CUPLUG_OK ? PyList_New(0) : nullptr;
  std::unordered_map<cuplug_block *, Handle *> known;
  for (Handle *handle = self->list.after; list != nullptr && handle != &self->list; handle = handle->after) {
    known[handle->block] = handle;
  }
  for (size_t i = 0; list != nullptr && i < count; ++i) {
    const auto found = known.find(blocks[i]);
    append(list, found != known.end() ? block_of(found->second) : block_for(self, blocks[i]));
  }
  return conclude(self, answer, operation, list);
}

}  // namespace cuplug::python
