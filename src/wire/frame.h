/* Frames between engine, warden, builder, init, zygote and session: one 16-byte header, one codec.
 *
 * Control sockets are SOCK_SEQPACKET: one frame a message, and only there may a frame carry file descriptors, as many
 * as its type declares. The session's channel is SOCK_STREAM and never carries any (it is read with read(2), so the
 * kernel drops attached descriptors). Integers are native-endian: both ends are one machine. */
#pragma once
#include "err.h"
#include <stddef.h>
#include <stdint.h>

#define KR_FRAME_HEAD 16u
#define KR_FRAME_CONTROL_MAX 4096u              /* payload on a control socket */
#define KR_FRAME_CHANNEL_MAX (16u << 20)        /* payload on a session's channel */
#define KR_FRAME_EGRESS_MAX (64u << 10)         /* payload on the socket between engine and egress process */
#define KR_FRAME_PACKET_MAX KR_FRAME_EGRESS_MAX /* the largest of those; what a receiver takes, its buffer says */
#define KR_FRAME_FDS_MAX 19u

struct kr_frame {
    uint32_t len;  /* payload bytes */
    uint16_t type; /* enum kr_frame_type */
    uint16_t nfds; /* descriptors that came with it */
    uint32_t id;   /* request id, or run number on a channel */
    uint32_t pad;
};

/* Checks a header against a limit and the type table. 0 or -EPROTO with the reason in err. Pure; fuzzed. */
int kr_frame_check(const struct kr_frame *f, uint32_t max_len, struct kr_err *err);

/* Sends one frame with its descriptors on a SEQPACKET socket. 0 or -errno; -EAGAIN if the socket is full and
 * nonblocking, -EPIPE when the peer has closed. Does not close the descriptors. */
int kr_frame_send(int sock, uint16_t type, uint32_t id, const void *payload, size_t len, const int *fds, unsigned nfds);

/* Receives one frame from a SEQPACKET socket before the deadline (0: do not wait). The payload goes to buf, the
 * descriptors (CLOEXEC) to fds, which must have room for fds_max; the caller owns them. Anything truncated, over
 * `size`, over the declared count for the type or over fds_max, or of unknown type is -EPROTO, with every descriptor
 * closed: who expects one takes at most one, whatever type the peer names.
 * -EMFILE when a good frame came but not all of its descriptors, because our own table is full: those that came are
 * closed, frame (with nfds 0) and payload are there, and the socket is as good as before. The descriptors are lost.
 * -ENODATA when the peer has closed, -ETIMEDOUT at the deadline (with 0: when nothing is there). The socket may be
 * blocking or not. */
int kr_frame_recv_few(int sock, struct kr_frame *ret_frame, void *buf, size_t size, int *fds, unsigned fds_max,
                      uint64_t deadline_ns, struct kr_err *err);
/* The same with room for KR_FRAME_FDS_MAX. */
int kr_frame_recv(int sock, struct kr_frame *ret_frame, void *buf, size_t size, int *fds, uint64_t deadline_ns,
                  struct kr_err *err);

/* Writes one frame on a blocking stream channel. 0 or -errno; -EPIPE when the peer has closed. Blocks. */
int kr_frame_write(int fd, uint16_t type, uint32_t id, const void *payload, size_t len);

/* Incremental decoder for a stream: feed bytes, take frames. */
struct kr_frame_reader {
    unsigned char *buf;
    size_t len, cap, used; /* used: bytes at the front that are taken, the last frame's among them */
    uint32_t max_len;
};
void kr_frame_reader_init(struct kr_frame_reader *r, uint32_t max_len);
void kr_frame_reader_done(struct kr_frame_reader *r);
/* Room to read into: at least one byte, grows up to header + max_len. NULL when out of memory, or when the buffer is
 * full because a frame was not taken: call kr_frame_reader_next() until it gives 0 before asking for room again. */
void *kr_frame_reader_room(struct kr_frame_reader *r, size_t *ret_size);
/* Says that n bytes were put into the room. */
void kr_frame_reader_fed(struct kr_frame_reader *r, size_t n);
/* 1 and the next frame (payload points into the reader, unaligned, valid until the next call of any function of the
 * reader), 0 if more bytes are needed, -EPROTO (and again -EPROTO: the stream is lost). Takes the types of a channel
 * (KR_S_*) only. Releases the frame taken before. */
int kr_frame_reader_next(struct kr_frame_reader *r, struct kr_frame *ret_frame, const unsigned char **ret_payload,
                         struct kr_err *err);
