#include "czlib.h"
#include <stdlib.h>
#include <zlib.h>

struct pando_zlib_stream {
    z_stream state;
    size_t byte_count;
};

// zlib frees single blocks only at the end of the stream: what is counted here is what it holds.
static voidpf allocate(voidpf stream, uInt count, uInt size) {
    void *block = malloc((size_t)count * size);
    if (block) ((pando_zlib_stream *)stream)->byte_count += (size_t)count * size;
    return block;
}

static void release(voidpf stream, voidpf block) {
    (void)stream;
    free(block);
}

static pando_zlib_stream *new_stream(void) {
    pando_zlib_stream *stream = calloc(1, sizeof *stream);
    if (!stream) return NULL;
    stream->state.zalloc = allocate;
    stream->state.zfree = release;
    stream->state.opaque = stream;
    return stream;
}

pando_zlib_stream *pando_deflate_new(int level, int window_bits, int memory_level) {
    pando_zlib_stream *stream = new_stream();
    if (!stream) return NULL;
    if (deflateInit2(&stream->state, level, Z_DEFLATED, window_bits, memory_level, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(stream);
        return NULL;
    }
    return stream;
}

pando_zlib_stream *pando_inflate_new(int window_bits) {
    pando_zlib_stream *stream = new_stream();
    if (!stream) return NULL;
    if (inflateInit2(&stream->state, window_bits) != Z_OK) {
        free(stream);
        return NULL;
    }
    return stream;
}

void pando_deflate_free(pando_zlib_stream *stream) {
    deflateEnd(&stream->state);
    free(stream);
}

void pando_inflate_free(pando_zlib_stream *stream) {
    inflateEnd(&stream->state);
    free(stream);
}

void pando_deflate_reset(pando_zlib_stream *stream) { deflateReset(&stream->state); }

void pando_inflate_reset(pando_zlib_stream *stream) { inflateReset(&stream->state); }

// zlib.h lists inflateResetKeep as undocumented. The documented way, inflateGetDictionary, inflateReset and
// inflateSetDictionary, copies the window twice: 64 KiB for each final block, which can be two bytes long.
void pando_inflate_continue(pando_zlib_stream *stream) { inflateResetKeep(&stream->state); }

size_t pando_zlib_byte_count(const pando_zlib_stream *stream) { return stream->byte_count; }

static void offer(z_stream *state, const void *input, size_t input_count, void *output, size_t output_count) {
    // zlib never writes to its input, though its type is not const.
    state->next_in = (Bytef *)input;
    state->avail_in = (uInt)input_count;
    state->next_out = output;
    state->avail_out = (uInt)output_count;
}

static pando_zlib_step step(const z_stream *state, int code, size_t input_count, size_t output_count) {
    pando_zlib_step result = {PANDO_ZLIB_OK, input_count - state->avail_in, output_count - state->avail_out, 0};
    switch (code) {
    // Z_BUF_ERROR: no progress, for lack of input or of space for output. The counts say so.
    case Z_OK: case Z_BUF_ERROR: break;
    case Z_STREAM_END: result.status = PANDO_ZLIB_END; break;
    case Z_MEM_ERROR: result.status = PANDO_ZLIB_NO_MEMORY; break;
    default: result.status = PANDO_ZLIB_BAD_DATA; break;
    }
    return result;
}

pando_zlib_step pando_deflate_step(
    pando_zlib_stream *stream, const void *input, size_t input_count, void *output, size_t output_count,
    pando_zlib_flush flush) {
    static const int flushes[] = {Z_NO_FLUSH, Z_SYNC_FLUSH, Z_FINISH};
    offer(&stream->state, input, input_count, output, output_count);
    return step(&stream->state, deflate(&stream->state, flushes[flush]), input_count, output_count);
}

pando_zlib_step pando_inflate_step(
    pando_zlib_stream *stream, const void *input, size_t input_count, void *output, size_t output_count) {
    offer(&stream->state, input, input_count, output, output_count);
    pando_zlib_step result =
        step(&stream->state, inflate(&stream->state, Z_NO_FLUSH), input_count, output_count);
    // zlib.h, inflate: 128 behind a block, 64 in the last one, and below that the unused bits of the last byte.
    result.is_at_block_end = (stream->state.data_type & 0xFF) == 128;
    return result;
}
