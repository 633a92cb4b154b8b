/* cuplug_allocator.h: the C interface of cuplug's native allocators.
 *
 * Plain C, no exceptions, no interpreter. Every function may be called from any thread. Sizes are bytes; addresses are
 * device addresses; a stream is a number that names one stream of the device (a driver's handle, or a key of the
 * upstream's own). The behaviour is that of the Python strategies in cuplug/allocators, which are the specification:
 * for any sequence of calls and any answers of upstream both give the same addresses, the same calls upstream, the same
 * events and the same statistics.
 */
#ifndef CUPLUG_ALLOCATOR_H
#define CUPLUG_ALLOCATOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CUPLUG_ALLOCATOR_VERSION 4 /* of this interface; what is added later stands behind what is here */

/* What a call answers. */
enum {
  CUPLUG_OK = 0,
  CUPLUG_OUT_OF_MEMORY = 1,  /* upstream (or the limit) has no such piece, after everything was tried */
  CUPLUG_FAILED = 2,         /* a call upstream failed; the upstream knows why. Nothing has been lost. */
  CUPLUG_NOT_LIVE = 3,       /* the block is not in the program's hands, or not this allocator's */
  CUPLUG_CLOSED = 4,         /* closed or abandoned */
  CUPLUG_REENTERED = 5,      /* called from within this thread's own operation (a callback, a finaliser) */
  CUPLUG_BUSY = 6,           /* another thread is inside, and the caller did not want to wait */
  CUPLUG_INVALID = 7,        /* an argument or an option is out of its range; cuplug_last_error() names it */
  CUPLUG_NO_HOST_MEMORY = 8, /* the process has no memory left; nothing has changed */
  CUPLUG_NOT_SUPPORTED = 9,  /* expandable without virtual memory; sleep on caching */
  CUPLUG_ASLEEP = 10         /* an allocation with a tag that is asleep */
};

/* A stream's number has 48 bits. Bits 48 to 62, where they are not all zero, name a private pool: to the allocator it is
 * another stream, to the device it is the same one. What a private pool holds stays where it is, free or not, since
 * recorded work (a CUDA graph) comes back to its addresses: it is neither moved nor given back, until
 * cuplug_forget_stream ends the pool. Its blocks that are live then belong to the stream itself. */
#define CUPLUG_STREAM_BITS 48
#define CUPLUG_MOST_POOLS ((1 << 15) - 1)

typedef struct cuplug_allocator cuplug_allocator;
typedef struct cuplug_block cuplug_block; /* valid while it is in the program's hands */

/* Where an allocator gets memory. Functions answer CUPLUG_OK, CUPLUG_OUT_OF_MEMORY (reserve, create_page) or
 * CUPLUG_FAILED, and then have changed nothing. They are called while the allocator's mutex is held.
 *
 * Where `fence` fails, it may leave something in `*fence` that stands for its error. A free must not fail, so its block
 * then waits behind that: it is never asked whether it is done, `fence_wait` with it has to answer CUPLUG_FAILED again,
 * and `fence_drop` lets it go. */
typedef struct cuplug_upstream {
  void *context; /* given to every function */
  int (*reserve)(void *context, uint64_t nbytes, uint64_t *address);
  int (*release)(void *context, uint64_t address);
  int (*memory_info)(void *context, uint64_t *free_bytes, uint64_t *total_bytes);
  int (*fence)(void *context, uint64_t stream, void **fence); /* marks the work queued on the stream so far */
  int (*fence_done)(void *context, void *fence, int *done);   /* never blocks */
  int (*fence_wait)(void *context, void *fence);
  void (*fence_drop)(void *context, void *fence);
  uint64_t granularity;      /* reserve rounds up to multiples of it */
  uint64_t page_granularity; /* of the following; 0 where there is no virtual memory */
  int (*reserve_range)(void *context, uint64_t nbytes, uint64_t *address);
  int (*free_range)(void *context, uint64_t address, uint64_t nbytes);
  int (*create_page)(void *context, uint64_t nbytes, uint64_t *handle);
  int (*release_page)(void *context, uint64_t handle);
  int (*map)(void *context, uint64_t address, uint64_t nbytes, uint64_t handle);
  int (*set_access)(void *context, uint64_t address, uint64_t nbytes);
  int (*unmap)(void *context, uint64_t address, uint64_t nbytes);
  void (*close)(void *context); /* the allocator is gone; may be null */
  /* As `fence`, but marks the work of all streams, besides that of `stream`; null where `fence` has to do. It is asked for
   * before pages are unmapped, which on CUDA waits for nothing: a program that uses memory on another stream without
   * cuplug_record_stream reads old bytes on memory that stays, as with cudaFree, and dies on memory that has gone. */
  int (*fence_everything)(void *context, uint64_t stream, void **fence);
  /* As `create_page`, of the host's memory near the device; null where there is none. */
  int (*create_host_page)(void *context, uint64_t nbytes, uint64_t *handle);
  /* An open file by which other processes map the page, the same one each time. It is upstream's, which closes it with the
   * page. Null where pages are for one process. */
  int (*export_page)(void *context, uint64_t handle, int *file);
} cuplug_upstream;

/* Options by name and value as text ("memory_limit", "1073741824"; "preset", "torch"), as in the Python constructors. */
typedef struct cuplug_option {
  const char *name;
  const char *value;
} cuplug_option;

/* A new allocator over a copy of `upstream`. `strategy` is "caching", "expandable" or
 * "planned", which takes the options of "expandable"; "plan", a file that cuplug-trace plan wrote; "device", the ordinal
 * whose part of the plan counts (0); "learn", how often a cycle has to come before it is planned (0: never); and
 * "at_once" (1: it is planned in the thread that asks, 0: in one of its own). */
int cuplug_allocator_create(const char *strategy, const cuplug_option *options, size_t count,
                            const cuplug_upstream *upstream, cuplug_allocator **made);
/* Frees the handle itself. Close it first; what is not closed is left to the driver. Blocks must not be used after. */
void cuplug_allocator_destroy(cuplug_allocator *allocator);
/* What was wrong with the last call of this thread that answered CUPLUG_INVALID: a sentence. */
const char *cuplug_last_error(void);

/* Around calls upstream that may block (reserve, release, waits, pages) and around waiting for the mutex: lets go of what
 * the calling thread holds (an interpreter's lock), and takes it again. `let_go` answers null where nothing is held. */
typedef struct cuplug_thread_hooks {
  void *(*let_go)(void);
  void (*take_again)(void *held);
} cuplug_thread_hooks;
void cuplug_allocator_set_thread_hooks(cuplug_allocator *, const cuplug_thread_hooks *);

/* Cut no segment from now on: each block has one for itself. CUPLUG_NOT_SUPPORTED by allocators other than "caching". */
int cuplug_allocator_keep_whole(cuplug_allocator *);

/* Asked for memory, outside the mutex, when nothing else helps: frees something and answers whether to try again. Below
 * zero it breaks the allocation off: that answers CUPLUG_FAILED, counts no failure and tells of none. */
typedef int (*cuplug_out_of_memory_hook)(void *context, uint64_t nbytes, uint64_t stream);
void cuplug_allocator_set_out_of_memory_hook(cuplug_allocator *, cuplug_out_of_memory_hook, void *context);

/* Told once, outside the mutex, when the first block lies in the host's memory for want of the device's own. */
typedef void (*cuplug_beyond_hook)(void *context, uint64_t nbytes, uint64_t stream);
void cuplug_allocator_set_beyond_hook(cuplug_allocator *, cuplug_beyond_hook, void *context);

/* Reserve at most `nbytes` of the device's memory from now on; UINT64_MAX for no limit. What is held already stays. */
int cuplug_allocator_set_memory_limit(cuplug_allocator *, uint64_t nbytes);

/* --- blocks. A null pointer where one is needed, and a size, an address or a number out of its range, is answered by
 * CUPLUG_INVALID. A request of more than 16 TiB is out of memory. What only the caller can know: an allocator is not used
 * once it was destroyed, nor a block then; and a block that was freed may be handed out again at any time, so that a
 * second free of it is only noticed (CUPLUG_NOT_LIVE) until then.
 *
 * `context` travels with the events of the call: in its low bits a call stack's number, 0 for none, and
 * above them the library that asks (allocators/libraries.py). */
#define CUPLUG_LIBRARY_SHIFT 24
enum {
  CUPLUG_LIBRARY_OWN = 0,
  CUPLUG_LIBRARY_TORCH = 1,
  CUPLUG_LIBRARY_CUPY = 2,
  CUPLUG_LIBRARY_NUMBA = 3,
  CUPLUG_LIBRARY_RMM = 4,
  CUPLUG_LIBRARY_PYCUDA = 5
};
int cuplug_allocate(cuplug_allocator *, uint64_t nbytes, uint64_t stream, uint64_t context, cuplug_block **block);
/* A block at `address`, which has to be free memory that the stream holds; CUPLUG_OUT_OF_MEMORY where it is not. Asks
 * upstream for nothing. `nbytes` is the size of the block, `requested` what the program asks for: 1 to `nbytes`. Address and
 * size are multiples of 512. */
int cuplug_allocate_at(cuplug_allocator *, uint64_t address, uint64_t nbytes, uint64_t requested, uint64_t stream,
                       uint64_t context, cuplug_block **block);
/* Never blocks, never fails but by CUPLUG_NOT_LIVE; may be called in any state of this thread (finalisers). Two threads
 * must not free one block at the same time. */
int cuplug_free(cuplug_allocator *, cuplug_block *, uint64_t context);
int cuplug_record_stream(cuplug_allocator *, cuplug_block *, uint64_t stream, uint64_t context);
uint64_t cuplug_block_address(const cuplug_block *);
uint64_t cuplug_block_nbytes(const cuplug_block *);
uint64_t cuplug_block_requested(const cuplug_block *);
uint64_t cuplug_block_stream(const cuplug_block *);
int cuplug_block_is_live(const cuplug_block *);
/* The live block that starts at `address`, or null. */
cuplug_block *cuplug_find_block(cuplug_allocator *, uint64_t address);
/* The same for libraries that know addresses alone. */
int cuplug_allocate_address(cuplug_allocator *, uint64_t nbytes, uint64_t stream, uint64_t *address);
int cuplug_free_address(cuplug_allocator *, uint64_t address);


/* The program's own pointer, kept with a block; null at first. */
void cuplug_block_set_user(cuplug_block *, void *user);
void *cuplug_block_user(const cuplug_block *);
/* The blocks in the program's hands in order of address: writes up to `most` of them, and to `count` how many there are. */
int cuplug_get_live_blocks(cuplug_allocator *, cuplug_block **blocks, size_t most, size_t *count);

/* --- pages in several processes */
typedef struct cuplug_shared_page {
  uint64_t address, nbytes;
  int file; /* open in this process until the page is given back, at the earliest after all blocks on it */
} cuplug_shared_page;
/* The pages behind the live block at `address`, in order of address and without a gap: writes up to `most`, and to `count`
 * how many there are. CUPLUG_NOT_SUPPORTED: it has no pages, or upstream does not share them, or they are the host's. */
int cuplug_share_pages(cuplug_allocator *, uint64_t address, cuplug_shared_page *pages, size_t most, size_t *count);

/* --- the whole */
int cuplug_release_cached(cuplug_allocator *, uint64_t *released);
int cuplug_forget_stream(cuplug_allocator *, uint64_t stream);
/* Give back what a stream that was forgotten has left, and nothing else. */
int cuplug_release_forgotten(cuplug_allocator *, uint64_t stream, uint64_t *released);
int cuplug_allocator_close(cuplug_allocator *);
void cuplug_allocator_abandon(cuplug_allocator *); /* no call upstream from here on; safe in a forked child */

enum { CUPLUG_OPEN = 0, CUPLUG_WAS_CLOSED = 1, CUPLUG_WAS_ABANDONED = 2 };
int cuplug_allocator_state(const cuplug_allocator *);
/* Whether its segments are ranges of addresses with pages behind them, as those of "expandable" and "planned". */
int cuplug_allocator_has_pages(const cuplug_allocator *);
/* Whether the calling thread is inside an operation of the allocator: in a call upstream. */
int cuplug_allocator_is_inside(const cuplug_allocator *);

/* What the calling thread's last CUPLUG_OUT_OF_MEMORY was about, at that time. Sizes are bytes. */
typedef struct cuplug_shortage {
  uint64_t requested, stream;
  uint64_t free_bytes, total_bytes; /* of the device */
  uint64_t memory_limit;            /* UINT64_MAX for none */
  uint64_t allocated_bytes, requested_bytes, reserved_bytes; /* at present */
  uint64_t largest_free, lost_bytes; /* of the free blocks: the largest, and all together */
} cuplug_shortage;
void cuplug_get_shortage(cuplug_shortage *);

typedef struct cuplug_counter {
  int64_t current, peak, allocated, freed;
} cuplug_counter;
typedef struct cuplug_counters { /* allocators/statistics.py: Counters, in that order */
  cuplug_counter allocation, allocated_bytes, requested_bytes, active, active_bytes, segment, reserved_bytes,
      inactive_split, inactive_split_bytes, host_bytes;
} cuplug_counters;
typedef struct cuplug_statistics {
  cuplug_counters all, small, large;
  int64_t num_alloc_retries, num_ooms, num_sync_all_streams, num_device_alloc, num_device_free;
} cuplug_statistics;
int cuplug_get_statistics(cuplug_allocator *, cuplug_statistics *);
int cuplug_reset_peaks(cuplug_allocator *);
int cuplug_reset_accumulated(cuplug_allocator *);

/* How much of what was asked for a plan has served ("planned"; CUPLUG_INVALID from others). */
typedef struct cuplug_served {
  uint64_t requests, requested_bytes; /* on any stream, planned or not */
  uint64_t planned_requests, planned_bytes; /* of these, what lay where the plan says */
} cuplug_served;
int cuplug_get_served(cuplug_allocator *, cuplug_served *);
/* Wait for a plan that is being worked out in a thread of its own; it is taken up where it fits. */
int cuplug_finish_planning(cuplug_allocator *);

enum { CUPLUG_ACTIVE = 0, CUPLUG_PENDING = 1, CUPLUG_INACTIVE = 2 };
typedef struct cuplug_piece {
  uint64_t address, nbytes, requested;
  int state;
} cuplug_piece;
typedef struct cuplug_segment { /* its pieces are pieces[first_piece .. first_piece + piece_count) */
  uint64_t address, nbytes, stream;
  size_t first_piece, piece_count;
  int is_small;
  int is_expandable; /* 0, or CUPLUG_EXPANDABLE with others of these perhaps, and its tag above them */
} cuplug_segment;
enum { CUPLUG_EXPANDABLE = 1, CUPLUG_SEGMENT_ASLEEP = 2, CUPLUG_SEGMENT_ON_HOST = 4 };
#define CUPLUG_TAG_SHIFT 8
typedef struct cuplug_map {
  size_t segment_count, piece_count;
  cuplug_segment *segments; /* in order of address */
  cuplug_piece *pieces;
} cuplug_map;
int cuplug_get_segments(cuplug_allocator *, cuplug_map **map);
void cuplug_map_free(cuplug_map *);

/* --- sleep (allocators/sleeping.py). What a thread allocates while it has a tag, a number from 1 to CUPLUG_MOST_TAGS, goes
 * to sleep and wakes together: its pages go back to the device, and its addresses stay. Only allocators on virtual memory
 * look at tags. */
#define CUPLUG_MOST_TAGS ((1 << 20) - 1)
/* Added to a tag, or to none: what is allocated with it lies in the host's memory, where the allocator takes such. */
#define CUPLUG_TAG_ON_HOST (1 << 20)
/* The calling thread's tag from now on, for all allocators; 0 for none. Answers the one before. */
uint64_t cuplug_set_memory_tag(uint64_t tag);
uint64_t cuplug_memory_tag(void);

/* Keeps contents on the host. Functions answer CUPLUG_OK, CUPLUG_OUT_OF_MEMORY (save) or CUPLUG_FAILED. They are called
 * while the allocator's mutex is held, `drop` at any time while the allocator is there. */
typedef struct cuplug_keeper {
  void *context;
  int (*save)(void *context, uint64_t address, uint64_t nbytes, void **copy); /* queues a copy of what stands there */
  int (*restore)(void *context, void *copy);                                  /* queues the way back */
  int (*wait)(void *context, void *copy); /* until what was queued last is done */
  void (*drop)(void *context, void *copy);
} cuplug_keeper;
/* Give back to the device what stands behind the blocks of that tag. Waits for the work that is queued on their streams.
 * `keeper` may be null: then their contents are lost. `nbytes`: what was given back; 0 if nothing was awake. Whatever
 * fails, nothing has changed. CUPLUG_NOT_SUPPORTED: the allocator is without pages, or pages of that tag were shared with
 * other processes (cuplug_share_pages). */
int cuplug_sleep(cuplug_allocator *, uint64_t tag, const cuplug_keeper *keeper, uint64_t *nbytes);
/* Bring it back to its addresses. Goes through everything that an allocation does when memory is short. Whatever fails, it
 * sleeps on. `nbytes`: what was taken; 0 if it was awake. */
int cuplug_wake(cuplug_allocator *, uint64_t tag, uint64_t *nbytes);
/* Copies memory of the device, or of the host at addresses of the device. Functions answer CUPLUG_OK or CUPLUG_FAILED. They
 * are called while the allocator's mutex is held. */
typedef struct cuplug_copier {
  void *context;
  int (*copy)(void *context, uint64_t to, uint64_t source, uint64_t nbytes); /* queues a copy */
  int (*wait)(void *context);                                                /* until all that was queued is done */
} cuplug_copier;
/* Let the blocks of that tag lie in the host's memory, or (0) in the device's, at their addresses. Waits for the work that is
 * queued on their streams; nothing may use them until it returns. Where the device is short, it goes through everything that an
 * allocation does then. `nbytes`: what was taken there, 0 if all lies there already; after CUPLUG_OUT_OF_MEMORY what it would
 * have taken. Whatever fails, all is where it was. CUPLUG_ASLEEP: the tag is; CUPLUG_NOT_SUPPORTED: pages
 * of it were shared with other processes (cuplug_share_pages). */
int cuplug_move(cuplug_allocator *, uint64_t tag, int to_host, const cuplug_copier *copier, uint64_t *nbytes);
typedef struct cuplug_sleeping {
  uint64_t tag, blocks;
  uint64_t nbytes, kept_bytes; /* of the blocks, and of those of them whose contents are kept */
} cuplug_sleeping;
/* What sleeps, in order of tags: writes up to `most`, and to `count` how many there are. */
int cuplug_get_sleeping(cuplug_allocator *, cuplug_sleeping *found, size_t most, size_t *count);

/* --- events. Kinds are those of allocators/events.py (EventKind). */
typedef struct cuplug_event {
  int32_t kind;
  int32_t waits; /* of a free: whether the block waits for streams; an event of their passing follows then */
  /* time: CLOCK_MONOTONIC; thread: pthread_self() */
  uint64_t time_ns, thread, stream, address, nbytes, requested, context;
} cuplug_event;
/* Start (or stop) keeping events. They are kept in order, in memory that grows; no thread waits for another. */
void cuplug_observe(cuplug_allocator *, int on);
/* Take up to `most` of the oldest events. Answers how many. */
size_t cuplug_take_events(cuplug_allocator *, cuplug_event *events, size_t most);
/* How many events are missing, since the process had no memory left for them. */
uint64_t cuplug_lost_events(const cuplug_allocator *);

/* Tell `listener` of each event in the thread and at the moment in which it happens, beside what is kept; null for
 * nobody. It may be called while the allocator's mutex is held, and must not call the allocator. Of the release of a
 * segment it is told before upstream is called; if upstream then fails, that the segment is reserved once more. */
typedef void (*cuplug_listener)(void *context, const cuplug_event *event);
void cuplug_listen(cuplug_allocator *, cuplug_listener, void *context);
/* Traces that have the events of `allocator`, now or later, get those of `other`, too, which outlives it and has none of its
 * own: two allocators of one device. One may have one such other. */
void cuplug_record_beside(cuplug_allocator *allocator, cuplug_allocator *other);

/* --- upstreams that come with the core */
/* allocators/upstreams/null.py: addresses of memory that does not exist, within a capacity. Pages have 2 MiB. */
int cuplug_null_upstream(uint64_t total_bytes, uint64_t granularity, cuplug_upstream *made);
/* The same with other pages; 0 for no virtual memory. */
int cuplug_null_upstream_with_pages(uint64_t total_bytes, uint64_t granularity, uint64_t page_granularity,
                                    cuplug_upstream *made);
typedef struct cuplug_null_counts { /* NullUpstream.calls by their names in the CUDA driver API, and its other figures */
  uint64_t mem_alloc, mem_free, mem_address_reserve, mem_address_free, mem_create, mem_map, mem_set_access, mem_unmap,
      mem_release;
  uint64_t fences;
  double driver_time_us; /* estimated */
  uint64_t used_bytes, total_bytes;
  uint64_t pages; /* handles that have not been released */
  uint64_t mem_create_host, used_host_bytes; /* pages of the host's memory, of which there are 2^50 bytes */
} cuplug_null_counts;
/* `upstream` as it was made. Its allocator has not been destroyed yet. */
int cuplug_null_upstream_counts(const cuplug_upstream *upstream, cuplug_null_counts *counts);
/* A CUDA device's memory by the driver's own functions (libcuda.so.1, found at run time), in its primary context. */
int cuplug_cuda_upstream(int ordinal, cuplug_upstream *made);
/* Let the device `peer` read and write the pages that allocators of this process map on the device `ordinal`, now and
 * later, as peer access does for memory that has no pages. Peer access has to be possible. */
int cuplug_cuda_admit_peer(int ordinal, int peer);
/* Map pages that another process shares, one behind the other, on the device `ordinal`, and let those devices use them that
 * may use what is mapped there. Of `pages`, `nbytes` and `file` count, which are this process's and stay its. */
int cuplug_cuda_open_pages(int ordinal, const cuplug_shared_page *pages, size_t count, uint64_t *address);
/* The same for pages of `page_nbytes` each that another process, or host, shares by fabric handles (CUmemFabricHandle, of 64
 * bytes), which stand one behind the other. */
int cuplug_cuda_open_fabric(int ordinal, uint64_t page_nbytes, const void *handles, size_t count, uint64_t *address);
/* Unmap them again: all that were mapped with one call, no work on which is queued. */
int cuplug_cuda_close_pages(uint64_t address, uint64_t nbytes);
/* Work is being captured from now on (+1), or no longer (-1), somewhere in the process. Meanwhile calls of the driver are
 * made so that they do not break a capture off, and what is queued on a stream that captures is marked once it does
 * not. */
void cuplug_cuda_capture(int change);
int cuplug_cuda_is_capturing(void); /* whether it is */
/* The CUresult of the latest call of the driver that failed in this thread; 0 if none did. */
int cuplug_cuda_last_result(void);

/* --- replays. Takes `count` steps, as in cuplug/tools/replay.py: n + 1 for the allocation number n, of sizes[n] bytes on
 * streams[n]; -(n + 1) for its free; 0 for cuplug_release_cached; INT64_MIN + n for
 * a limit of n bytes, with 0 for none. `blocks` has room for one of each number, null at first; give the same to the
 * next call, so that a history may be taken in several. Allocations that memory is too short for are counted and passed
 * over, or the replay stops there. Answers CUPLUG_OK once all steps are taken, or what the one numbered `done` failed with. */
#define CUPLUG_LIMITS (-((int64_t)1 << 62)) /* steps below this change the limit */
typedef struct cuplug_replay_result {
  size_t done; /* how many steps have been taken */
  size_t out_of_memory;
  size_t first_failure; /* if out_of_memory: the first such step, and what was short then */
  cuplug_shortage shortage;
} cuplug_replay_result;
int cuplug_replay(cuplug_allocator *, const int64_t *steps, size_t count, const uint64_t *sizes, const uint64_t *streams,
                  cuplug_block **blocks, int stop_at_failure, cuplug_replay_result *result);

/* Leave at least `nbytes` behind each block that is allocated from now on: they are rounded up with what is asked for, and
 * nobody's. For simulated devices, where reaching into them is found. */
int cuplug_allocator_set_guard(cuplug_allocator *, uint64_t nbytes);

#ifdef __cplusplus
}
#endif
#endif
