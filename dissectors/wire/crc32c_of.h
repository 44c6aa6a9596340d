/* CRC32C of a run of bytes.
 *
 * On x86-64 with SSE 4.2 by the CPU's instruction: it takes three cycles and starts one every cycle, so that long runs
 * are read as three streams beside each other, of STREAM bytes each, and joined. Elsewhere by tables, 8 bytes at a time.
 * The first call makes the tables; it runs, as all do, under Python's global lock.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define STREAM 2048
#define POLYNOMIAL 0x82f63b78u

static int crc_ready = 0, crc_by_instruction = 0;
static uint32_t crc_table[8][256];    /* crc_table[k][b]: byte b, then k bytes of zero */
static uint32_t crc_shifted[4][256];  /* crc_shifted[k][b]: byte k of a CRC is b, then STREAM bytes of zero */

static uint32_t crc_by_table(uint32_t crc, const unsigned char *p, size_t n) {
    for (; n >= 8; p += 8, n -= 8) {
        uint32_t low = crc ^ (p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        crc = crc_table[7][low & 255] ^ crc_table[6][low >> 8 & 255] ^ crc_table[5][low >> 16 & 255]
            ^ crc_table[4][low >> 24] ^ crc_table[3][p[4]] ^ crc_table[2][p[5]] ^ crc_table[1][p[6]] ^ crc_table[0][p[7]];
    }
    while (n--) crc = crc >> 8 ^ crc_table[0][(crc ^ *p++) & 255];
    return crc;
}

static void crc_make_tables(void) {
    static const unsigned char zeros[STREAM];
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ POLYNOMIAL : crc >> 1;
        crc_table[0][i] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (int i = 0; i < 256; i++)
            crc_table[k][i] = crc_table[k - 1][i] >> 8 ^ crc_table[0][crc_table[k - 1][i] & 255];
    for (int k = 0; k < 4; k++)
        for (uint32_t i = 0; i < 256; i++) crc_shifted[k][i] = crc_by_table(i << 8 * k, zeros, STREAM);
#if defined(__x86_64__)
    crc_by_instruction = __builtin_cpu_supports("sse4.2");
#endif
    crc_ready = 1;
}

#if defined(__x86_64__)
#include <nmmintrin.h>

static inline uint32_t crc_shift(uint32_t crc) {
    return crc_shifted[0][crc & 255] ^ crc_shifted[1][crc >> 8 & 255] ^ crc_shifted[2][crc >> 16 & 255]
         ^ crc_shifted[3][crc >> 24];
}

__attribute__((target("sse4.2")))
static uint32_t crc_by_sse(uint32_t crc, const unsigned char *p, size_t n) {
    uint64_t a = crc, word;
    for (; n >= 3 * STREAM; p += 3 * STREAM, n -= 3 * STREAM) {
        uint64_t b = 0, c = 0;
        for (size_t i = 0; i < STREAM; i += 8) {
            memcpy(&word, p + i, 8);
            a = _mm_crc32_u64(a, word);
            memcpy(&word, p + STREAM + i, 8);
            b = _mm_crc32_u64(b, word);
            memcpy(&word, p + 2 * STREAM + i, 8);
            c = _mm_crc32_u64(c, word);
        }
        a = crc_shift(crc_shift((uint32_t)a) ^ (uint32_t)b) ^ (uint32_t)c;
    }
    for (; n >= 8; p += 8, n -= 8) {
        memcpy(&word, p, 8);
        a = _mm_crc32_u64(a, word);
    }
    crc = (uint32_t)a;
    while (n--) crc = _mm_crc32_u8(crc, *p++);
    return crc;
}
#endif

static uint32_t crc32c_of(const unsigned char *p, size_t n) {
    if (!crc_ready) crc_make_tables();
#if defined(__x86_64__)
    if (crc_by_instruction) return ~crc_by_sse(~0u, p, n);
#endif
    return ~crc_by_table(~0u, p, n);
}
